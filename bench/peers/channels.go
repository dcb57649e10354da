// SPDX-License-Identifier: MIT

// Goroutines as contenders at channels and locks. Built together with goroutines.go.
package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	buffer = 128
	crowds = 4
)

func expect(item, wanted int) {
	if item != wanted {
		panic("an item is lost or doubled")
	}
}

// stream sends n items through a channel with a buffer.
func stream(n int, locked bool) {
	items := make(chan int, buffer)
	go func() {
		if locked {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
		}
		for i := 0; i < n; i++ {
			items <- i
		}
	}()
	if locked {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	for i := 0; i < n; i++ {
		expect(<-items, i)
	}
}

// choose receives one item from four channels, and says from which.
func choose(c *[4]chan int) (item, from int) {
	select {
	case item = <-c[0]:
		return item, 0
	case item = <-c[1]:
		return item, 1
	case item = <-c[2]:
		return item, 2
	case item = <-c[3]:
		return item, 3
	}
}

func four(size int) *[4]chan int {
	var c [4]chan int
	for i := range c {
		c[i] = make(chan int, size)
	}
	return &c
}

// selectReady sends an item and selects it, n times.
func selectReady(n int) {
	c := four(1)
	for i := 0; i < n; i++ {
		c[i%4] <- i
		item, from := choose(c)
		expect(item, i)
		expect(from, i%4)
	}
}

// selectWaiting selects n items that another one sends, through the four in turn.
func selectWaiting(n int) {
	c := four(0)
	go func() {
		for i := 0; i < n; i++ {
			c[i%4] <- i
		}
	}()
	for i := 0; i < n; i++ {
		item, from := choose(c)
		expect(item, i)
		expect(from, i%4)
	}
}

func mutexAlone(n int) {
	var m sync.Mutex
	for i := 0; i < n; i++ {
		m.Lock()
		sink++
		m.Unlock()
	}
}

func rwmutexAlone(n int) {
	var m sync.RWMutex
	for i := 0; i < n; i++ {
		m.RLock()
		sink++
		m.RUnlock()
	}
}

func semaphoreAlone(n int) {
	permits := make(chan struct{}, 1)
	for i := 0; i < n; i++ {
		permits <- struct{}{}
		sink++
		<-permits
	}
}

// mutexQueue lets four goroutines take a lock and yield while they have it, n times in all.
func mutexQueue(n int) time.Duration {
	var m sync.Mutex
	var ended sync.WaitGroup
	turns, each := 0, (n+crowds-1)/crowds
	ended.Add(crowds)
	start := time.Now()
	for k := 0; k < crowds; k++ {
		go func() {
			for i := 0; i < each; i++ {
				m.Lock()
				turns++
				runtime.Gosched()
				m.Unlock()
			}
			ended.Done()
		}()
	}
	ended.Wait()
	took := time.Since(start)
	expect(turns, each*crowds)
	return scaled(took, n, turns)
}

// mutexFight lets two goroutines take a lock, until both together have had it n times.
func mutexFight(n int) time.Duration {
	var m sync.Mutex
	var ended sync.WaitGroup
	var there int32
	var began [2]time.Time
	turns := 0
	fight := func(k int) {
		atomic.AddInt32(&there, 1)
		for atomic.LoadInt32(&there) < 2 {
			runtime.Gosched()
		}
		began[k] = time.Now()
		for left := true; left; {
			m.Lock()
			left = turns < n
			if left {
				turns++
			}
			m.Unlock()
		}
		ended.Done()
	}
	ended.Add(2)
	go fight(0)
	go fight(1)
	ended.Wait()
	if began[1].Before(began[0]) {
		began[0] = began[1]
	}
	return time.Since(began[0])
}

var channelOperations = map[string]func(int) time.Duration{
	"stream":         timed(func(n int) { stream(n, false) }),
	"stream_locked":  timed(func(n int) { stream(n, true) }),
	"select_ready":   timed(selectReady),
	"select_waiting": timed(selectWaiting),
	"mutex":          timed(mutexAlone),
	"rwmutex":        timed(rwmutexAlone),
	"semaphore":      timed(semaphoreAlone),
	"mutex_queue":    mutexQueue,
	"mutex_fight":    mutexFight,
}
