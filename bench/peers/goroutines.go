// SPDX-License-Identifier: MIT

// Goroutines as contenders, for the benchmarks in C beside this file (see go.h).
//
//	goroutines serve        reads lines "operation n", answers each with nanoseconds
//	goroutines ring k       the same, with the one operation yield_1: k goroutines yield, each to
//	                        the next one. They stay, and stand still while nobody asks.
//	goroutines hold n       n goroutines blocked on a channel: count, ns to start them, ns to end
//	                        them, resident bytes, page table bytes, resident bytes after, faults
//	goroutines cancel n     n goroutines that wait for a context (see trees.go), likewise tree n
//	                        and asleep n
//
// An operation named ..._1 runs on one thread (GOMAXPROCS 1), one named ..._2 on two; the others on
// as many as Go likes. Those at channels and locks are in channels.go.
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
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	many = 100000
	few  = 256                    // what only a calibration asks for
	nap  = 200 * time.Microsecond // after which a thread that has nothing to do sleeps
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

// spawnMany starts 100 000 goroutines, then waits for all; as often as n needs.
func spawnMany(n int) time.Duration {
	var wait sync.WaitGroup
	lap := many
	if n < few {
		lap = n
	}
	start, laps := time.Now(), (n+lap-1)/lap
	for k := 0; k < laps; k++ {
		wait.Add(lap)
		for i := 0; i < lap; i++ {
			go func() {
				atomic.AddInt64(&sink, 1)
				wait.Done()
			}()
		}
		wait.Wait()
	}
	return time.Duration(float64(time.Since(start)) * float64(n) / float64(laps*lap))
}

// rounds passes a word to another goroutine and back, n times.
func rounds(n int, locked, asleep bool) time.Duration {
	there, back := make(chan int), make(chan int)
	lock, unlock := runtime.LockOSThread, runtime.UnlockOSThread
	if !locked {
		lock, unlock = func() {}, func() {}
	}
	go func() {
		lock()
		defer unlock()
		for i := 0; i < n; i++ {
			back <- <-there
		}
	}()
	lock()
	defer unlock()
	var took time.Duration
	start := time.Now()
	for i := 0; i < n; i++ {
		if asleep {
			time.Sleep(nap)
			start = time.Now()
		}
		there <- i
		<-back
		if asleep {
			took += time.Since(start)
		}
	}
	if !asleep {
		took = time.Since(start)
	}
	return took
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

// timed makes an operation that measures itself.
func timed(operation func(int)) func(int) time.Duration {
	return func(n int) time.Duration {
		start := time.Now()
		operation(n)
		return time.Since(start)
	}
}

func serve() {
	round := func(locked, asleep bool) func(int) time.Duration {
		return func(n int) time.Duration { return rounds(n, locked, asleep) }
	}
	operations := map[string]func(int) time.Duration{
		"spawn": timed(spawnJoin), "many": spawnMany, "yield": timed(gosched),
		"spawn_channel": timed(spawnChannel), "skynet": skynets,
		"hand":  func(n int) time.Duration { return rounds(n/2, false, false) },
		"round": round(false, false), "round_locked": round(true, false),
		"round_asleep": round(false, true), "round_asleep_locked": round(true, true),
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
		name, wanted := words[0], threads
		for count := 1; count <= 2 && name == words[0]; count++ {
			name = strings.TrimSuffix(name, fmt.Sprint("_", count))
			if name != words[0] {
				wanted = count
			}
		}
		operation := operations[name]
		if operation == nil {
			operation = channelOperations[name]
		}
		if operation == nil {
			operation = crowdOperation(name)
		}
		if operation == nil {
			fmt.Println(-1)
			continue
		}
		runtime.GOMAXPROCS(wanted)
		took := operation(n)
		runtime.GOMAXPROCS(threads)
		fmt.Println(took.Nanoseconds())
	}
}

// ring lets k goroutines yield for ever on one thread. This one reads its orders by a raw system
// call, which Go does not know to block: so nobody else runs until the next order is there.
func ring(k int) {
	var left int
	var end time.Time
	runtime.GOMAXPROCS(1)
	for i := 0; i < k; i++ {
		go func() {
			for {
				left--
				if left == 0 {
					end = time.Now()
				}
				runtime.Gosched()
			}
		}()
	}
	runtime.Gosched() // now all have started
	line := make([]byte, 256)
	for {
		got := readOrder(line)
		if got <= 0 {
			return
		}
		words := strings.Fields(string(line[:got]))
		n, _ := strconv.Atoi(words[len(words)-1])
		start := time.Now()
		left = n
		for left > 0 {
			runtime.Gosched()
		}
		answer := []byte(strconv.FormatInt(end.Sub(start).Nanoseconds(), 10) + "\n")
		syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&answer[0])),
			uintptr(len(answer)))
	}
}

// readOrder reads one order, holding on to the thread meanwhile.
func readOrder(line []byte) int {
	for {
		got, _, err := syscall.RawSyscall(syscall.SYS_READ, 0,
			uintptr(unsafe.Pointer(&line[0])), uintptr(len(line)))
		if err == 0 {
			return int(got)
		}
		if err != syscall.EINTR {
			return -1
		}
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
	case len(os.Args) > 2 && os.Args[1] == "ring":
		ring(n)
	case len(os.Args) > 2 && os.Args[1] == "hold":
		hold(n)
	case len(os.Args) > 2 && strings.Contains("cancel tree asleep", os.Args[1]):
		crowdOnce(n, os.Args[1])
	default:
		fmt.Fprintln(os.Stderr,
			"usage: goroutines serve | ring N | hold N | cancel N | tree N | asleep N")
		os.Exit(2)
	}
}
