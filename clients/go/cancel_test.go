// SPDX-License-Identifier: MIT

package dibs_test

import (
	"context"
	"errors"
	"math/rand"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dibs.dev/go/dibs"
	"dibs.dev/go/dibs/internal/dibstest"
)

// Calls that are cancelled at random moments, from several goroutines: what was answered is held, and nothing else.
func TestCancelledClaimsLeaveNothing(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		seed := time.Now().UnixNano()
		t.Log("seed", seed)
		began := time.Now()
		for i := 0; i < 8; i++ {
			must[int](b)(c.Release(background, dibs.Which{Token: claimed(b)(c.Claim(background, dibs.Request{})).Token}))
		}
		usual := time.Since(began) / 16
		kinds := []dibs.Holder{dibs.Keep(), dibs.Lease(time.Hour), {}}
		var wg sync.WaitGroup
		var mu sync.Mutex
		answered, cancelled := map[int]bool{}, 0
		for g := 0; g < 4; g++ {
			random := rand.New(rand.NewSource(seed + int64(g)))
			wg.Add(1)
			go func(g int) {
				defer wg.Done()
				for i := 0; i < dibstest.Long(1000, 25); i++ {
					ctx, cancel := context.WithCancel(background)
					timer := time.AfterFunc(usual<<random.Intn(8)/4, cancel)
					r := dibs.Request{Holder: kinds[i%3]}
					if i%2 == 1 {
						r.Name = "/cancelled/" + strconv.Itoa(g) + "/" + strconv.Itoa(i)
					}
					claims, err := c.ClaimBatch(ctx, dibs.Batch{Request: r, Count: 1 + i%2})
					timer.Stop()
					mu.Lock()
					for _, claim := range claims {
						answered[int(claim.Port)] = true
					}
					if err != nil {
						cancelled++
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					}
					mu.Unlock()
					cancel()
				}
			}(g)
		}
		wg.Wait()
		c.Close()
		held := b.Held()
		for _, port := range held {
			if !answered[port] {
				t.Errorf("port %d was left behind", port)
			}
		}
		if len(held) != len(answered) {
			t.Errorf("%d ports were answered, %d are held", len(answered), len(held))
		}
		if cancelled == 0 || len(answered) == 0 {
			t.Errorf("%d cancelled and %d answered: nothing was shown", cancelled, len(answered))
		}
	})
}

func TestACallThatIsCancelledBeforeItBeginsDoesNothing(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		ctx, cancel := context.WithCancel(background)
		cancel()
		if _, err := c.Claim(ctx, dibs.Request{}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for _, call := range []func() error{
			func() error { _, err := c.Find(ctx, dibs.Which{Name: "/a/b"}); return err },
			func() error { _, err := c.Release(ctx, dibs.Which{Name: "/a/b"}); return err },
			func() error { _, err := c.Pools(ctx); return err },
			func() error { _, err := c.Env(ctx, "web"); return err },
			func() error { list := c.List(ctx, dibs.Filter{}); list.Next(); return list.Err() },
			func() error { events := c.Events(ctx, 0); events.Next(); return events.Err() },
		} {
			if err := call(); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		assertHeld(b, 0)
	})
}

// The daemon stops between the request and its answer.
func TestAClaimWhoseAnswerComesTooLateIsTakenBack(t *testing.T) {
	b := dibstest.New(t, true)
	c := client(b, dibs.Options{Timeout: 100 * time.Millisecond})
	b.Signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	_, err := c.Claim(ctx, dibs.Request{Holder: dibs.Keep()})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	_, err = c.Claim(background, dibs.Request{Holder: dibs.Keep()}) // our own time
	assertCode(b, err, dibs.ErrUnavailable)
	_, err = c.Find(background, dibs.Which{Name: "/a/b"})
	assertCode(b, err, dibs.ErrUnavailable)
	b.Signal(syscall.SIGCONT)
	c.Close()
	assertHeld(b, 0)
	if out, _, _ := b.Dibs("log", "--json"); strings.Count(out, `"what":"claimed"`) != 2 {
		t.Fatal("the claims were not made at all:", out)
	}
}

// A daemon is killed with the request, and the next one answers: the claim is either made or not, and taken back.
func TestAClaimThatIsCancelledWhileTheDaemonIsReplacedIsTakenBack(t *testing.T) {
	b := dibstest.New(t, true)
	c := client(b, dibs.Options{})
	for i := 0; i < dibstest.Long(30, 2); i++ {
		claimed(b)(c.Get(background, dibs.Request{Name: "/stays/here"}))
		b.Signal(syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
		_, err := c.ClaimBatch(ctx, dibs.Batch{Names: []string{"/stays/here", "/goes/away"}, Request: dibs.Request{Holder: dibs.Keep()}})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		b.Stop(syscall.SIGKILL)
		b.Start()
		c.Close()
		assertHeld(b, 1)
	}
}

// The name was kept before: it stays, and the process is not its holder, unless it was that before the call.
func TestACancelledClaimOfAKeptNameDoesNotHoldIt(t *testing.T) {
	b := dibstest.New(t, false)
	kept := claimed(b)(client(b, dibs.Options{}).Get(background, dibs.Request{Name: "/shop/web"}))
	c := client(b, dibs.Options{Program: b.Wrapper(`answer=$("$DIBS" "$@") || exit; [ "$1" != claim ] || sleep 0.2; echo "$answer"`)})
	for _, isHeld := range []bool{false, true} {
		if isHeld {
			claimed(b)(c.Claim(background, dibs.Request{Name: "/shop/web"}))
		}
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		if _, err := c.Claim(ctx, dibs.Request{Name: "/shop/web"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
		c.Close()
		left := claimed(b)(c.Find(background, dibs.Which{Name: "/shop/web"}))
		if left.ID != kept.ID || (left.Holder != nil) != isHeld {
			t.Fatalf("%+v", left)
		}
	}
}

// A program that answers late: the claim is made, and then nobody waits for it.
func TestAClaimOfAProgramThatAnswersLateIsTakenBack(t *testing.T) {
	b := dibstest.New(t, false)
	c := client(b, dibs.Options{Program: b.Wrapper(`answer=$("$DIBS" "$@") || exit; [ "$1" != claim ] || sleep 0.2; echo "$answer"`)})
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	if _, err := c.Claim(ctx, dibs.Request{Holder: dibs.Keep()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	c.Close()
	assertHeld(b, 0)
}

// The program is killed after it has claimed and before it answers.
func TestAProgramThatIsKilledIsAskedAgainWithTheSameKey(t *testing.T) {
	b := dibstest.New(t, false)
	c := client(b, dibs.Options{Program: b.Wrapper(`[ "$1" = claim ] && [ ! -e "$TOP/once" ] || exec "$DIBS" "$@"
touch "$TOP/once"; "$DIBS" "$@" >/dev/null; kill -KILL $$`)})
	claim := claimed(b)(c.Claim(background, dibs.Request{Holder: dibs.Keep()}))
	assertHeld(b, 1)
	if held := b.Held(); held[0] != int(claim.Port) {
		t.Fatal(held, claim.Port)
	}
}

// What only looks is killed at once.
func TestACancelledCallKillsItsProgram(t *testing.T) {
	b := dibstest.New(t, false)
	c := client(b, dibs.Options{Program: b.Wrapper(`[ "$1" = pool ] || exec "$DIBS" "$@"
echo $$ >"$TOP/pid"; exec sleep 600`)})
	ctx, cancel := context.WithCancel(background)
	done := make(chan error)
	go func() {
		_, err := c.Pools(ctx)
		done <- err
	}()
	var pid string
	b.Until("the program runs", func() bool {
		out, err := exec.Command("cat", b.Dir+"/../pid").Output()
		pid = strings.TrimSpace(string(out))
		return err == nil && pid != ""
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	number, _ := strconv.Atoi(pid)
	if err := syscall.Kill(number, 0); err != syscall.ESRCH {
		t.Fatalf("process %s: %v", pid, err)
	}
}
