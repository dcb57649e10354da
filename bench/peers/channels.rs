// SPDX-License-Identifier: MIT

// Tokio's channels and locks as contenders; a module of tokio.rs.
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Mutex, RwLock, Semaphore};
use tokio::task::yield_now;

const BUFFER: usize = 128;
const CROWD: usize = 4;

fn since(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

// Through buffers of one item there and back, n times: there is no channel without a buffer.
async fn round(n: usize) -> u64 {
    let (there, mut from_there) = mpsc::channel(1);
    let (back, mut from_back) = mpsc::channel(1);
    let start = Instant::now();
    let echo = tokio::spawn(async move {
        while let Some(item) = from_there.recv().await {
            back.send(item).await.unwrap();
        }
    });
    for i in 0..n {
        there.send(i).await.unwrap();
        assert_eq!(from_back.recv().await, Some(i));
    }
    let took = since(start);
    drop(there);
    echo.await.unwrap();
    took
}

async fn stream(n: usize) -> u64 {
    let (to, mut from) = mpsc::channel(BUFFER);
    let start = Instant::now();
    let sender = tokio::spawn(async move {
        for i in 0..n {
            to.send(i).await.unwrap();
        }
    });
    for i in 0..n {
        assert_eq!(from.recv().await, Some(i));
    }
    sender.await.unwrap();
    since(start)
}

// Such a send never waits, so that only a yield lets the receiver run before all is sent.
async fn unlimited(n: usize) -> u64 {
    let (to, mut from) = mpsc::unbounded_channel();
    let start = Instant::now();
    let sender = tokio::spawn(async move {
        for i in 0..n {
            to.send(i).unwrap();
            if i % BUFFER == BUFFER - 1 {
                yield_now().await;
            }
        }
    });
    for i in 0..n {
        assert_eq!(from.recv().await, Some(i));
    }
    sender.await.unwrap();
    since(start)
}

fn four() -> (Vec<Sender<usize>>, [Receiver<usize>; 4]) {
    let (to0, from0) = mpsc::channel(1);
    let (to1, from1) = mpsc::channel(1);
    let (to2, from2) = mpsc::channel(1);
    let (to3, from3) = mpsc::channel(1);
    (vec![to0, to1, to2, to3], [from0, from1, from2, from3])
}

// One item from one of the four, and from which.
async fn choose(from: &mut [Receiver<usize>; 4]) -> (Option<usize>, usize) {
    let [a, b, c, d] = from;
    tokio::select! {
        item = a.recv() => (item, 0),
        item = b.recv() => (item, 1),
        item = c.recv() => (item, 2),
        item = d.recv() => (item, 3),
    }
}

async fn ready(n: usize) -> u64 {
    let (to, mut from) = four();
    let start = Instant::now();
    for i in 0..n {
        to[i % 4].send(i).await.unwrap();
        assert_eq!(choose(&mut from).await, (Some(i), i % 4));
    }
    since(start)
}

// The sender yields after each item: else it would fill all four before the receiver waits again.
async fn waiting(n: usize) -> u64 {
    let (to, mut from) = four();
    let start = Instant::now();
    let sender = tokio::spawn(async move {
        for i in 0..n {
            to[i % 4].send(i).await.unwrap();
            yield_now().await;
        }
    });
    for _ in 0..n {
        let (item, at) = choose(&mut from).await;
        assert_eq!(item.unwrap() % 4, at);
    }
    sender.await.unwrap();
    since(start)
}

async fn mutex(n: usize) -> u64 {
    let number = Mutex::new(0);
    let start = Instant::now();
    for _ in 0..n {
        *number.lock().await += 1;
    }
    let took = since(start);
    assert_eq!(number.into_inner(), n);
    took
}

async fn rwlock(n: usize) -> u64 {
    let number = RwLock::new(1);
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..n {
        sum += *number.read().await;
    }
    let took = since(start);
    assert_eq!(sum, n);
    took
}

async fn semaphore(n: usize) -> u64 {
    let permits = Semaphore::new(1);
    let start = Instant::now();
    for _ in 0..n {
        drop(permits.acquire().await.unwrap());
    }
    since(start)
}

// Four tasks take a lock and yield while they have it, n times in all.
async fn queue(n: usize) -> u64 {
    let number = Arc::new(Mutex::new(0));
    let each = (n + CROWD - 1) / CROWD;
    let turns = |number: Arc<Mutex<usize>>| async move {
        for _ in 0..each {
            let mut guard = number.lock().await;
            *guard += 1;
            yield_now().await;
        }
    };
    let start = Instant::now();
    let tasks: Vec<_> = (0..CROWD)
        .map(|_| tokio::spawn(turns(number.clone())))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let took = start.elapsed();
    assert_eq!(*number.lock().await, each * CROWD);
    crate::scaled(took, n, each * CROWD)
}

// Two tasks take a lock, until both together have had it n times.
async fn fight(n: usize) -> u64 {
    let number = Arc::new(Mutex::new(0));
    let there = Arc::new(AtomicUsize::new(0));
    let turns = |number: Arc<Mutex<usize>>, there: Arc<AtomicUsize>| async move {
        there.fetch_add(1, SeqCst);
        while there.load(SeqCst) < 2 {
            yield_now().await;
        }
        let start = Instant::now();
        loop {
            let mut guard = number.lock().await;
            if *guard == n {
                return start;
            }
            *guard += 1;
        }
    };
    let one = tokio::spawn(turns(number.clone(), there.clone()));
    let other = tokio::spawn(turns(number, there));
    let start = one.await.unwrap().min(other.await.unwrap());
    since(start)
}

pub async fn operate(name: &str, n: usize) -> Option<u64> {
    Some(match name {
        "channel_round" => round(n).await,
        "channel_stream" => stream(n).await,
        "channel_unlimited" => unlimited(n).await,
        "channel_ready" => ready(n).await,
        "channel_waiting" => waiting(n).await,
        "sync_mutex" => mutex(n).await,
        "sync_rwlock" => rwlock(n).await,
        "sync_semaphore" => semaphore(n).await,
        "sync_queue" => queue(n).await,
        "sync_fight" => fight(n).await,
        _ => return None,
    })
}
