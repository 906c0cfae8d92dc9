// SPDX-License-Identifier: MIT

package rbg_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"dibs.dev/go/dibs"
	"dibs.dev/go/dibs/internal/dibstest"
	"dibs.dev/go/dibs/rbg"
)

// The numbers in the comments are those of the list of RBG's own test cases that apply to a strategy.

var background = context.Background()

func TestMain(m *testing.M) { os.Exit(dibstest.Main(m, nil)) }

// strategy is the interface that RBG wants; its client is one of Kubernetes.
type strategy interface {
	Start(client kubeClient) error
	Release(port int32) error
	AllocateBatch(num int32) ([]int32, error)
}

type kubeClient interface{ Get() error }

// factory is what RBG registers for a name.
func factory(b *dibstest.Bench, start, size int32) (strategy, error) {
	client, err := dibs.New(dibs.Options{Dir: b.Dir})
	if err != nil {
		return nil, err
	}
	a, err := rbg.New(client, rbg.Options{StartPort: start, PortRange: size})
	return rbg.Strategy[kubeClient]{Allocator: a}, err
}

func made(b *dibstest.Bench, start, size int32) strategy {
	b.T.Helper()
	s, err := factory(b, start, size)
	if err != nil {
		b.T.Fatal(err)
	}
	return s
}

func batch(b *dibstest.Bench, s strategy, n int32) []int32 {
	b.T.Helper()
	ports, err := s.AllocateBatch(n)
	if err != nil {
		b.T.Fatal(err)
	}
	return ports
}

// 16 to 20.
func TestABatchHasAsManyPortsAsAskedFor(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		s := made(b, 30000, 2768)
		for n, want := range map[int32]int{1: 1, 10: 10, 0: 0, -1: 0} {
			if ports := batch(b, s, n); ports == nil || len(ports) != want {
				t.Errorf("%d: %v", n, ports)
			}
		}
		if ports, err := s.AllocateBatch(3000); len(ports) != 0 || !errors.Is(err, dibs.ErrExhausted) {
			t.Error(len(ports), err)
		}
		if held := b.Held(); len(held) != 11 { // all or nothing
			t.Error(len(held))
		}
	})
}

// 21, 22, 30 and 31, and more than they ask: no port twice, also between batches and between controllers.
func TestNoPortIsAllocatedTwice(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		one, two := made(b, 30000, 2000), made(b, 30000, 2000)
		var mu sync.Mutex
		seen := map[int32]bool{}
		var wg sync.WaitGroup
		for g := 0; g < 10; g++ {
			s := one
			if g%2 == 1 {
				s = two
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				ports, err := s.AllocateBatch(100)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, port := range ports {
					if seen[port] || port < 30000 || port > 31999 {
						t.Errorf("port %d", port)
					}
					seen[port] = true
				}
			}()
		}
		wg.Wait()
		if len(seen) != 1000 {
			t.Fatal(len(seen))
		}
		if _, err := one.AllocateBatch(1001); !errors.Is(err, dibs.ErrExhausted) {
			t.Fatal(err)
		}
	})
}

// 23.
func TestReleaseIsIdempotentAndEndsOnlyWhatIsAllocated(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		s := made(b, 30000, 2768)
		for _, port := range []int32{30000, 12345, 0, -1, 65536} {
			if err := s.Release(port); err != nil {
				t.Error(port, err)
			}
		}
		port := batch(b, s, 1)[0]
		for i := 0; i < 2; i++ {
			if err := s.Release(port); err != nil {
				t.Error(err)
			}
		}
		if held := b.Held(); len(held) != 0 {
			t.Error(held)
		}
		// Claims of the same user that are none of the strategy's.
		client, err := dibs.New(dibs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []dibs.Request{
			{Name: "/shop/web", Port: 30100, Holder: dibs.Keep()}, {Port: 30101}, {Port: 29999, Holder: dibs.Keep()},
		} {
			if _, err := client.Claim(background, r); err != nil {
				t.Fatal(err)
			}
			if err := s.Release(int32(r.Port)); err != nil {
				t.Error(err)
			}
		}
		if held := b.Held(); len(held) != 3 {
			t.Error(held)
		}
	})
}

// 24 and 25.
func TestTheStrategyStartsWhenDibsAnswers(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		s := made(b, 30000, 2768)
		if err := s.Start(nil); err != nil {
			t.Fatal(err)
		}
		if ports := batch(b, s, 5); len(ports) != 5 {
			t.Fatal(ports)
		}
		t.Setenv("DIBS_SOCKET", b.Dir+"/nothing")
		if err := made(b, 30000, 2768).Start(nil); !errors.Is(err, dibs.ErrUnavailable) {
			t.Fatal(err)
		}
	})
}

func TestARangeThatIsNoneIsRefused(t *testing.T) {
	b := dibstest.New(t, false)
	for _, r := range [][2]int32{{0, 10}, {-5, 10}, {30000, 0}, {30000, -1}, {30000, 60000}, {65535, 2}, {1, 65536}, {1 << 30, 1 << 30}} {
		if _, err := factory(b, r[0], r[1]); !errors.Is(err, dibs.ErrUsage) {
			t.Error(r, err)
		}
	}
	for _, r := range [][2]int32{{1, 65535}, {65535, 1}} {
		if _, err := factory(b, r[0], r[1]); err != nil {
			t.Error(r, err)
		}
	}
	if _, err := rbg.New(nil, rbg.Options{StartPort: 1, PortRange: 1, Pool: "a"}); !errors.Is(err, dibs.ErrUsage) {
		t.Error(err)
	}
}

// A controller that is restarted, and one whose ledger was lost while a pod serves.
func TestARestartedControllerKnowsItsPorts(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		before := batch(b, made(b, 30000, 100), 3)
		client, err := dibs.New(dibs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := rbg.New(client, rbg.Options{StartPort: 30000, PortRange: 100})
		if err != nil {
			t.Fatal(err)
		}
		allocated := func() map[int32]bool {
			ports, err := a.Allocated(background)
			if err != nil {
				t.Fatal(err)
			}
			set := map[int32]bool{}
			for _, port := range ports {
				set[port] = true
			}
			return set
		}
		if set := allocated(); len(set) != 3 || !set[before[0]] || !set[before[1]] || !set[before[2]] {
			t.Fatal(set)
		}
		// The ledger has forgotten two, and a pod serves on one of them.
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		ok(a.Release(before[0]))
		ok(a.Release(before[1]))
		b.Helper("listen", fmt.Sprintf("127.0.0.1:%d", before[0]))
		ok(a.Restore(background, append(before, before...)))
		if set := allocated(); len(set) != 3 {
			t.Fatal(set)
		}
		// Somebody else has one of them now; the others are restored.
		ok(a.Release(before[1]))
		ok(a.Release(before[2]))
		if _, err := client.Claim(background, dibs.Request{Port: uint16(before[1])}); err != nil {
			t.Fatal(err)
		}
		if err := a.Restore(background, before); !errors.Is(err, dibs.ErrTaken) {
			t.Fatal(err)
		}
		if set := allocated(); len(set) != 2 || !set[before[2]] {
			t.Fatal(set)
		}
		for _, port := range before {
			if err := a.Release(port); err != nil {
				t.Fatal(err)
			}
		}
		if set := allocated(); len(set) != 0 {
			t.Fatal(set)
		}
	})
}

func TestAPoolInsteadOfARange(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		if _, stderr, code := b.Dibs("pool", "set", "pods", "--ranges", "30000-30001"); code != 0 {
			t.Fatal(stderr)
		}
		client, err := dibs.New(dibs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := rbg.New(client, rbg.Options{Pool: "pods", Protos: []dibs.Proto{dibs.TCP, dibs.UDP}})
		if err != nil {
			t.Fatal(err)
		}
		ports, err := a.AllocateBatch(2)
		if err != nil || len(ports) != 2 {
			t.Fatal(ports, err)
		}
		ctx, cancel := context.WithTimeout(background, time.Nanosecond)
		defer cancel()
		if _, err := a.AllocateBatchContext(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		for _, port := range ports {
			if err := a.Release(port); err != nil {
				t.Fatal(err)
			}
		}
		if held := b.Held(); len(held) != 0 {
			t.Fatal(held)
		}
	})
}

func ExampleAllocator() {
	client, err := dibs.New(dibs.Options{})
	if err != nil {
		panic(err)
	}
	ports, err := rbg.New(client, rbg.Options{StartPort: 30000, PortRange: 2768})
	if err != nil {
		panic(err)
	}
	batch, err := ports.AllocateBatch(3)
	if err != nil {
		panic(err) // nothing was allocated
	}
	for _, port := range batch {
		if err := ports.Release(port); err != nil {
			panic(err)
		}
	}
	fmt.Println(len(batch), "ports of their own")
	// Output: 3 ports of their own
}
