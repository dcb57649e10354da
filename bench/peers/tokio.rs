// SPDX-License-Identifier: MIT

// Tokio's tasks as contenders, for the benchmarks in C beside this file (see process.h).
//
//     tokio_tasks serve        reads lines "operation n", answers each with nanoseconds
//     tokio_tasks cancel n     n tasks that wait, then abort all and join all: count, ns to start
//                              them, ns to abort and join them, resident bytes, page table bytes.
//                              Likewise asleep n: they sleep for an hour, and set n: in a JoinSet
//
// An operation named ..._1 runs on one thread (current_thread); the others on two workers.
mod channels;

use std::future::Future;
use std::io::BufRead;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, JoinSet};

const MANY: usize = 100_000;
const FEW: usize = 256; // what only a calibration asks for
const LEAVES: u64 = 1_000_000;
const HOUR: Duration = Duration::from_secs(3600);

static SINK: AtomicUsize = AtomicUsize::new(0);

async fn touch() {
    SINK.store(SINK.load(Relaxed) + 1, Relaxed);
}

// As long as n operations take, when count have taken so long.
fn scaled(took: Duration, n: usize, count: usize) -> u64 {
    (took.as_nanos() as f64 * n as f64 / count as f64) as u64
}

// Spawns n tasks, one after the other, and waits for each.
async fn spawn_join(n: usize) -> u64 {
    let start = Instant::now();
    for _ in 0..n {
        tokio::spawn(touch()).await.unwrap();
    }
    start.elapsed().as_nanos() as u64
}

// Spawns 100 000 tasks, then waits for all; as often as n needs.
async fn spawn_many(n: usize) -> u64 {
    let lap = if n < FEW { n } else { MANY };
    let laps = (n + lap - 1) / lap;
    let start = Instant::now();
    for _ in 0..laps {
        let handles: Vec<_> = (0..lap).map(|_| tokio::spawn(touch())).collect();
        for handle in handles {
            handle.await.unwrap();
        }
    }
    scaled(start.elapsed(), n, laps * lap)
}

// The sum over a tree in which each node has ten children.
fn skynet(number: u64, size: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if size == 1 {
            return number;
        }
        let part = size / 10;
        let mut children = Vec::with_capacity(10);
        for i in 0..10 {
            children.push(tokio::spawn(skynet(number + i * part, part)));
        }
        let mut sum = 0;
        for child in children {
            sum += child.await.unwrap();
        }
        sum
    })
}

// A tree of 1 000 000 leaves, as often as n leaves need.
async fn skynets(n: usize) -> u64 {
    let leaves = if n < FEW { 100 } else { LEAVES };
    let laps = (n as u64 + leaves - 1) / leaves;
    let start = Instant::now();
    for _ in 0..laps {
        assert_eq!(skynet(0, leaves).await, leaves * (leaves - 1) / 2);
    }
    scaled(start.elapsed(), n, (laps * leaves) as usize)
}

static WAITING: AtomicUsize = AtomicUsize::new(0);

async fn wait() {
    WAITING.fetch_add(1, Relaxed);
    std::future::pending::<()>().await;
}

async fn sleep() {
    WAITING.fetch_add(1, Relaxed);
    tokio::time::sleep(HOUR).await;
}

// Tasks that wait, with a handle each or in a set.
enum Crowd {
    Handles(Vec<JoinHandle<()>>),
    Set(JoinSet<()>),
}

async fn crowd_start(count: usize, kind: &str) -> Crowd {
    WAITING.store(0, Relaxed);
    let crowd = match kind {
        "set" => {
            let mut set = JoinSet::new();
            for _ in 0..count {
                set.spawn(wait());
            }
            Crowd::Set(set)
        }
        "asleep" => Crowd::Handles((0..count).map(|_| tokio::spawn(sleep())).collect()),
        _ => Crowd::Handles((0..count).map(|_| tokio::spawn(wait())).collect()),
    };
    while WAITING.load(Relaxed) < count {
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await; // the last one gets to its wait
    crowd
}

// Aborts all and waits until all have ended.
async fn collect(crowd: Crowd) -> Duration {
    let start = Instant::now();
    match crowd {
        Crowd::Set(mut set) => {
            set.abort_all();
            while set.join_next().await.is_some() {}
        }
        Crowd::Handles(handles) => {
            for handle in &handles {
                handle.abort();
            }
            for handle in handles {
                assert!(handle.await.is_err());
            }
        }
    }
    start.elapsed()
}

// Aborts and collects crowds of `lap`, as often as n needs.
async fn cancel(n: usize, lap: usize, kind: &str) -> u64 {
    let lap = if n < FEW { n } else { lap };
    let laps = (n + lap - 1) / lap;
    let mut took = Duration::ZERO;
    for _ in 0..laps {
        took += collect(crowd_start(lap, kind).await).await;
    }
    scaled(took, n, laps * lap)
}

async fn operate(name: String, n: usize) -> Option<u64> {
    let words: Vec<&str> = name.split('_').collect();
    if words[0] == "channel" || words[0] == "sync" {
        return channels::operate(&name, n).await;
    }
    Some(match words[0] {
        "spawn" => spawn_join(n).await,
        "many" => spawn_many(n).await,
        "skynet" => skynets(n).await,
        kind => cancel(n, words.get(1)?.parse().ok()?, kind).await,
    })
}

// On a worker, where there are workers: the thread that blocks is none.
fn run(threads: &Runtime, alone: &Runtime, full: &str, n: usize) -> Option<u64> {
    match full.strip_suffix("_1") {
        Some(name) => alone.block_on(operate(name.to_string(), n)),
        None => {
            let task = threads.spawn(operate(full.to_string(), n));
            threads.block_on(task).unwrap()
        }
    }
}

fn serve() {
    let alone = Builder::new_current_thread().enable_time().build().unwrap();
    let mut many = Builder::new_multi_thread();
    let threads = many.worker_threads(2).enable_time().build().unwrap();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let n = words.get(1).and_then(|word| word.parse().ok());
        match n.and_then(|n| run(&threads, &alone, words[0], n)) {
            Some(ns) => println!("{}", ns),
            None => println!("-1"),
        }
    }
}

// A line of /proc/self/status, in bytes.
fn status(key: &str) -> i64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(key));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<i64>().ok());
    kib.unwrap_or(0) * 1024
}

fn once(n: usize, kind: &str) {
    let alone = Builder::new_current_thread().enable_time().build().unwrap();
    let (rss, tables) = (status("VmRSS:"), status("VmPTE:"));
    alone.block_on(async {
        let start = Instant::now();
        let crowd = crowd_start(n, kind).await;
        let started = start.elapsed().as_nanos();
        let (rss, tables) = (status("VmRSS:") - rss, status("VmPTE:") - tables);
        let took = collect(crowd).await.as_nanos();
        println!("{} {} {} {} {}", n, started, took, rss, tables);
    });
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n = args.get(2).and_then(|word| word.parse().ok()).unwrap_or(0);
    match args.get(1).map(|mode| mode.as_str()) {
        Some("serve") => serve(),
        Some(kind @ ("cancel" | "asleep" | "set")) if n > 0 => once(n, kind),
        _ => {
            eprintln!("usage: tokio_tasks serve | cancel N | asleep N | set N");
            std::process::exit(2);
        }
    }
}
