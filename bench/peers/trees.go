// SPDX-License-Identifier: MIT

// Goroutines as contenders in what jobs do: they wait until a context is cancelled, and they sum
// up a tree. Built together with goroutines.go.
package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const leaves = 1000000

// spawnChannel starts n goroutines, one after the other, and takes a word from each.
func spawnChannel(n int) {
	done := make(chan bool)
	for i := 0; i < n; i++ {
		go func() {
			sink++
			done <- true
		}()
		<-done
	}
}

// scaled tells how long n operations take, when count have taken so long.
func scaled(took time.Duration, n, count int) time.Duration {
	return time.Duration(float64(took) * float64(n) / float64(count))
}

// skynet sums over a tree in which each node has ten children.
func skynet(sum chan int, number, size int) {
	if size == 1 {
		sum <- number
		return
	}
	parts, total := make(chan int), 0
	for i := 0; i < 10; i++ {
		go skynet(parts, number+i*size/10, size/10)
	}
	for i := 0; i < 10; i++ {
		total += <-parts
	}
	sum <- total
}

// skynets sums over a tree of 1 000 000 leaves, as often as n leaves need.
func skynets(n int) time.Duration {
	size := leaves
	if n < few {
		size = 100
	}
	laps := (n + size - 1) / size
	start := time.Now()
	for k := 0; k < laps; k++ {
		sum := make(chan int)
		go skynet(sum, 0, size)
		if <-sum != size*(size-1)/2 {
			panic("the sum is wrong")
		}
	}
	return scaled(time.Since(start), n, laps*size)
}

// A crowd waits until its context is cancelled: all at one context, or each at a child of it, or
// with a timer of an hour beside it.
type crowd struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func crowdStart(count int, kind string) *crowd {
	var waiting int64
	c := new(crowd)
	above, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.ended.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			defer c.ended.Done()
			atomic.AddInt64(&waiting, 1)
			switch kind {
			case "tree":
				own, end := context.WithCancel(above)
				<-own.Done()
				end()
			case "asleep":
				timer := time.NewTimer(time.Hour)
				select {
				case <-above.Done():
				case <-timer.C:
				}
				timer.Stop()
			default:
				<-above.Done()
			}
		}()
	}
	for atomic.LoadInt64(&waiting) < int64(count) {
		runtime.Gosched()
	}
	runtime.Gosched() // the last one gets to its channel
	return c
}

// collect cancels, and waits until all have ended.
func (c *crowd) collect() time.Duration {
	start := time.Now()
	c.cancel()
	c.ended.Wait()
	return time.Since(start)
}

// cancelled cancels and collects crowds of `lap`, as often as n needs.
func cancelled(n, lap int, kind string) time.Duration {
	var took time.Duration
	if n < few {
		lap = n
	}
	laps := (n + lap - 1) / lap
	for k := 0; k < laps; k++ {
		took += crowdStart(lap, kind).collect()
	}
	return scaled(took, n, laps*lap)
}

// crowdOperation finds the operation of a name like cancel_1000: the kind and how many wait.
func crowdOperation(name string) func(int) time.Duration {
	words := strings.Split(name, "_")
	if len(words) != 2 {
		return nil
	}
	lap, err := strconv.Atoi(words[1])
	if err != nil {
		return nil
	}
	return func(n int) time.Duration { return cancelled(n, lap, words[0]) }
}

// crowdOnce prints what a crowd of n takes on one thread: count, ns to start it, ns to cancel and
// collect it, resident bytes, page table bytes.
func crowdOnce(n int, kind string) {
	runtime.GOMAXPROCS(1)
	rss, tables := status("VmRSS"), status("VmPTE")
	start := time.Now()
	c := crowdStart(n, kind)
	started := time.Since(start)
	rss, tables = status("VmRSS")-rss, status("VmPTE")-tables
	fmt.Println(n, started.Nanoseconds(), c.collect().Nanoseconds(), rss, tables)
}
