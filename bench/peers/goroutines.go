// SPDX-License-Identifier: MIT

// Goroutines as contenders, for the benchmarks in C beside this file (see go.h).
//
//	goroutines serve        reads lines "operation n", answers each with nanoseconds
//	goroutines hold n       n goroutines blocked on a channel: count, ns to start them, ns to end
//	                        them, resident bytes, page table bytes, resident bytes after, faults
//
// An operation named ..._1 runs on one thread (GOMAXPROCS 1); the others on as many as Go likes.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var sink int64

// spawnJoin starts n goroutines, one after the other, and waits for each.
func spawnJoin(n int) {
	var wait sync.WaitGroup
	for i := 0; i < n; i++ {
		wait.Add(1)
		go func() {
			sink++
			wait.Done()
		}()
		wait.Wait()
	}
}

// handOver passes a word to and fro between two goroutines, n times in all.
func handOver(n int) {
	there, back := make(chan int), make(chan int)
	go func() {
		for i := 0; i < n/2; i++ {
			back <- <-there
		}
	}()
	for i := 0; i < n/2; i++ {
		there <- i
		<-back
	}
}

// gosched lets two goroutines yield to each other, n times in all.
func gosched(n int) {
	done := make(chan bool)
	for k := 0; k < 2; k++ {
		go func() {
			for i := 0; i < n/2; i++ {
				runtime.Gosched()
			}
			done <- true
		}()
	}
	<-done
	<-done
}

func serve() {
	operations := map[string]func(int){
		"spawn": spawnJoin, "hand": handOver, "yield": gosched,
	}
	threads := runtime.GOMAXPROCS(0)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 2 {
			fmt.Println(-1)
			continue
		}
		n, _ := strconv.Atoi(words[1])
		name := strings.TrimSuffix(words[0], "_1")
		operation := operations[name]
		if operation == nil {
			fmt.Println(-1)
			continue
		}
		if name != words[0] {
			runtime.GOMAXPROCS(1)
		}
		start := time.Now()
		operation(n)
		took := time.Since(start)
		runtime.GOMAXPROCS(threads)
		fmt.Println(took.Nanoseconds())
	}
}

// status finds a line of /proc/self/status, in bytes.
func status(key string) int64 {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == key+":" {
			kib, _ := strconv.ParseInt(words[1], 10, 64)
			return kib * 1024
		}
	}
	return 0
}

func faults() int64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Minflt
}

func hold(n int) {
	var started, ended sync.WaitGroup
	end := make(chan bool)
	rss, tables, minor := status("VmRSS"), status("VmPTE"), faults()
	start := time.Now()
	started.Add(n)
	ended.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			started.Done()
			<-end
			ended.Done()
		}()
	}
	started.Wait()
	runtime.Gosched() // the last ones get to the channel
	holding := time.Since(start)
	minor = faults() - minor
	rss1, tables1 := status("VmRSS"), status("VmPTE")
	start = time.Now()
	close(end)
	ended.Wait()
	dropping := time.Since(start)
	debug.FreeOSMemory()
	fmt.Println(n, holding.Nanoseconds(), dropping.Nanoseconds(), rss1-rss, tables1-tables,
		status("VmRSS")-rss, minor)
}

func main() {
	n := 0
	if len(os.Args) > 2 {
		n, _ = strconv.Atoi(os.Args[2])
	}
	switch {
	case len(os.Args) > 1 && os.Args[1] == "serve":
		serve()
	case len(os.Args) > 2 && os.Args[1] == "hold":
		hold(n)
	default:
		fmt.Fprintln(os.Stderr, "usage: goroutines serve | hold N")
		os.Exit(2)
	}
}
