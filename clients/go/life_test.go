// SPDX-License-Identifier: MIT

package dibs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dibs.dev/go/dibs"
	"dibs.dev/go/dibs/internal/dibstest"
)

// hold is a helper process that claims a port by itself, says which, and stays.
func hold(args []string) {
	c, err := dibs.New(dibs.Options{})
	if err == nil {
		var claim dibs.Claim
		if claim, err = c.Claim(background, dibs.Request{Name: args[0]}); err == nil {
			fmt.Println(claim.Port)
			time.Sleep(time.Minute)
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

func TestAKilledProcessHoldsNothing(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		holder, text := b.Helper("hold", "/shop/web")
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			t.Fatal(text)
		}
		_, err = c.Claim(background, dibs.Request{Port: uint16(port)})
		refusal := assertCode(b, err, dibs.ErrTaken)
		if refusal.Blocker == nil || refusal.Blocker.PID != holder.Process.Pid || refusal.Blocker.Name != "shop/web" {
			t.Fatalf("%+v", refusal.Blocker)
		}
		_, err = c.Claim(background, dibs.Request{Name: "/shop/web"})
		assertCode(b, err, dibs.ErrTaken)
		dibstest.Kill(holder)
		claim := claimed(b)(c.Claim(background, dibs.Request{Name: "/shop/web"}))
		if claim.Port != uint16(port) || claim.Holder.PID != os.Getpid() {
			t.Fatalf("%+v", claim)
		}
	})
}

// Claims go on while the daemon is stopped, killed and started: each answer is one claim, and each claim was answered.
func TestTheDaemonRestartsInTheMiddle(t *testing.T) {
	b := dibstest.New(t, true)
	c := client(b, dibs.Options{Timeout: time.Minute})
	var mu sync.Mutex
	answered, released := map[int]bool{}, 0
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for g := 0; g < 8; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				claim, err := c.Claim(background, dibs.Request{Holder: dibs.Lease(time.Hour)})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if answered[int(claim.Port)] {
					t.Errorf("port %d was given twice", claim.Port)
				}
				answered[int(claim.Port)] = true
				mu.Unlock()
				if i%2 == 0 {
					continue
				}
				mu.Lock()
				delete(answered, int(claim.Port))
				mu.Unlock()
				if _, err := c.Release(background, claim.Which()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				released++
				mu.Unlock()
			}
		}()
	}
	for i := 0; i < dibstest.Long(40, 4); i++ {
		before := 0
		b.Until("the claims go on", func() bool {
			mu.Lock()
			defer mu.Unlock()
			if before == 0 {
				before = released + 1
			}
			return released > before+50
		})
		if i%2 == 0 {
			b.Stop(syscall.SIGTERM)
		} else {
			b.Stop(syscall.SIGKILL)
		}
		b.Start()
	}
	close(stop)
	wg.Wait()
	held := b.Held()
	for _, port := range held {
		if !answered[port] {
			t.Errorf("port %d is held, but was not answered", port)
		}
	}
	if len(held) != len(answered) {
		t.Errorf("%d ports were answered, %d are held", len(answered), len(held))
	}
}

// relay passes connections on to the daemon, and loses the answers to its first requests of a path.
func relay(b *dibstest.Bench, path string, losses int32) string {
	at := fmt.Sprintf("%s.%s%d", b.Socket, filepath.Base(path), losses)
	listener, err := net.Listen("unix", at)
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { listener.Close() })
	pass := func(from net.Conn) {
		defer from.Close()
		to, err := net.Dial("unix", b.Socket)
		if err != nil {
			return
		}
		defer to.Close()
		requests, answers := bufio.NewReader(from), bufio.NewReader(to)
		for {
			request, err := http.ReadRequest(requests)
			if err != nil {
				return
			}
			isLost := strings.HasSuffix(request.URL.Path, path) && atomic.AddInt32(&losses, -1) >= 0
			if request.Write(to) != nil {
				return
			}
			answer, err := http.ReadResponse(answers, request)
			if err != nil || isLost {
				return
			}
			if answer.Write(from) != nil {
				return
			}
		}
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(connection)
		}
	}()
	return at
}

func TestAClaimWhoseAnswerIsLostIsAskedForAgainAndMadeOnce(t *testing.T) {
	b := dibstest.New(t, true)
	c := client(b, dibs.Options{Socket: relay(b, "/v1/batch", 3)})
	claim := claimed(b)(c.Claim(background, dibs.Request{Holder: dibs.Keep()}))
	assertHeld(b, 1)
	// The key says "new" again; a claim that was there stays when its call is cancelled.
	named := claimed(b)(c.Claim(background, dibs.Request{Name: "/shop/web", Holder: dibs.Keep()}))
	time.Sleep(200 * time.Millisecond) // older than two readings of the clock may differ
	slow := client(b, dibs.Options{Socket: relay(b, "/v1/batch", 2)})
	ctx, cancel := context.WithCancel(background)
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := slow.Claim(ctx, dibs.Request{Name: "/shop/web", Holder: dibs.Keep()}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	slow.Close()
	if held := b.Held(); len(held) != 2 {
		t.Fatal(held, claim.Port, named.Port)
	}
}

func TestATransferWhoseAnswerIsLostIsNotRepeated(t *testing.T) {
	b := dibstest.New(t, true)
	c := client(b, dibs.Options{Socket: relay(b, "/transfer", 1)})
	claim := claimed(b)(c.Claim(background, dibs.Request{}))
	_, err := c.Transfer(background, claim.Which(), dibs.Keep())
	if refusal := assertCode(b, err, dibs.ErrUnavailable); !strings.Contains(refusal.Message, "not known") {
		t.Fatal(refusal.Message)
	}
	if found := claimed(b)(c.Find(background, dibs.Which{Port: claim.Port})); found.Holder != nil || found.Generation != 2 {
		t.Fatalf("%+v", found)
	}
}

func TestADaemonThatStaysAwayIsAnError(t *testing.T) {
	b := dibstest.New(t, true)
	c := client(b, dibs.Options{Timeout: 300 * time.Millisecond})
	claim := claimed(b)(c.Claim(background, dibs.Request{}))
	b.Stop(syscall.SIGTERM)
	_, err := c.Claim(background, dibs.Request{})
	assertCode(b, err, dibs.ErrUnavailable)
	_, err = c.Release(background, claim.Which())
	assertCode(b, err, dibs.ErrUnavailable)
	fresh := client(b, dibs.Options{}) // has never reached it: no waiting
	_, err = fresh.Claim(background, dibs.Request{})
	assertCode(b, err, dibs.ErrUnavailable)
	b.Start()
	if n := must[int](b)(c.Release(background, claim.Which())); n != 1 {
		t.Fatal(n)
	}
	c.Close()
	assertHeld(b, 0)
}

func TestTheFallbackWithoutALedgerIsMarked(t *testing.T) {
	b := dibstest.New(t, false)
	t.Setenv("DIBS_LEDGER", "sqlite:/proc/no/ledger.db")
	_, err := client(b, dibs.Options{}).Claim(background, dibs.Request{})
	assertCode(b, err, dibs.ErrUnavailable)
	t.Setenv("DIBS_LEDGER_MODE", "fallback")
	c := client(b, dibs.Options{})
	claim := claimed(b)(c.Claim(background, dibs.Request{}))
	if !claim.Degraded {
		t.Fatalf("%+v", claim)
	}
	if n, err := c.Release(background, claim.Which()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

func TestEventsAreFollowedAcrossARestart(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		first := claimed(b)(c.Claim(background, dibs.Request{Name: "/shop/web"}))
		if n := must[uint64](b)(c.Newest(background)); n != 1 {
			t.Fatal(n)
		}
		events := c.Events(background, 0)
		next := func() dibs.Event {
			if !events.Next() {
				t.Fatal(events.Err())
			}
			return events.Event()
		}
		if e := next(); e.What != "claimed" || e.Port != first.Port || e.Name != "shop/web" || e.Claim != first.ID || e.Seq != 1 {
			t.Fatalf("%+v", e)
		}
		go func() {
			time.Sleep(20 * time.Millisecond)
			c.Release(background, first.Which())
		}()
		if e := next(); e.What != "released" || e.Port != first.Port {
			t.Fatalf("%+v", e)
		}
		if b.Socket != "" {
			b.Stop(syscall.SIGKILL)
			b.Start()
		}
		claimed(b)(c.Claim(background, dibs.Request{}))
		if e := next(); e.What != "claimed" || e.Name != "" || events.Seq() != 3 {
			t.Fatalf("%+v", e)
		}
		resumed := c.Events(background, 1)
		if !resumed.Next() || resumed.Event().Seq != 2 {
			t.Fatal(resumed.Err(), resumed.Event())
		}
		// A number that the ledger has not reached yet: it was replaced.
		gone := c.Events(background, 4000)
		if gone.Next() || !errors.Is(gone.Err(), dibs.ErrMissed) {
			t.Fatal(gone.Event(), gone.Err())
		}
	})
}
