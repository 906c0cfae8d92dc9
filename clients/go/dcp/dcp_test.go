// SPDX-License-Identifier: MIT

package dcp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"dibs.dev/go/dibs"
	"dibs.dev/go/dibs/dcp"
	"dibs.dev/go/dibs/internal/dibstest"
)

// The numbers in the comments are those of the list of DCP's own test cases that apply to an allocator.

var background = context.Background()

func TestMain(m *testing.M) { os.Exit(dibstest.Main(m, nil)) }

func allocator(b *dibstest.Bench, options dcp.Options) *dcp.Allocator {
	b.T.Helper()
	client, err := dibs.New(dibs.Options{Dir: b.Dir})
	if err != nil {
		b.T.Fatal(err)
	}
	return dcp.New(client, options)
}

// owner is an allocator for another process, which lives.
func owner(b *dibstest.Bench) *dcp.Allocator {
	return allocator(b, dcp.Options{Owner: b.Sleeper().Process.Pid})
}

func allocate(b *dibstest.Bench, a *dcp.Allocator, protocol, address string) int32 {
	b.T.Helper()
	port, err := a.Allocate(background, protocol, address)
	if err != nil || port <= 0 {
		b.T.Fatal(port, err)
	}
	return port
}

func ok(b *dibstest.Bench, err error) {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
}

func isHeld(b *dibstest.Bench, err error) *dibs.Error {
	b.T.Helper()
	var refusal *dibs.Error
	if !errors.Is(err, dibs.ErrTaken) || !errors.As(err, &refusal) {
		b.T.Fatalf("%v, but it should be held", err)
	}
	return refusal
}

// 1 to 4.
func TestTwoCallsReturnTwoPorts(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		a := allocator(b, dcp.Options{})
		for _, protocol := range []string{"TCP", "UDP"} {
			for _, address := range []string{"localhost", "", "127.0.0.1", "::1", "[::1]"} {
				if allocate(b, a, protocol, address) == allocate(b, a, protocol, address) {
					t.Fatal("one port twice")
				}
			}
		}
	})
}

// listen binds as the program that the port is for.
func listen(t *testing.T, protocol, address string, port int32) interface{ Close() error } {
	t.Helper()
	where := net.JoinHostPort(address, strconv.Itoa(int(port)))
	if protocol == "UDP" {
		packet, err := net.ListenPacket("udp", where)
		if err != nil {
			t.Fatal(err)
		}
		return packet
	}
	listener, err := net.Listen("tcp", where)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// 5 and 6.
func TestAPortIsAvailableAgainAfterItsListenerHasClosed(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		a := allocator(b, dcp.Options{})
		var wg sync.WaitGroup
		for _, protocol := range []string{"TCP", "UDP"} {
			for _, address := range []string{"127.0.0.1", "::1"} {
				wg.Add(1)
				go func(protocol, address string) {
					defer wg.Done()
					port, err := a.Allocate(background, protocol, address)
					if err != nil {
						t.Error(err)
						return
					}
					if err := a.Reserve(background, protocol, address, port); err != nil {
						t.Error(err)
					}
					listener := listen(t, protocol, address, port)
					if err := a.Reserve(background, protocol, address, port); !errors.Is(err, dibs.ErrTaken) {
						t.Errorf("%s %s: %v while it is in use", protocol, address, err)
					}
					listener.Close()
					if err := a.Reserve(background, protocol, address, port); err != nil {
						t.Error(err)
					}
				}(protocol, address)
			}
		}
		wg.Wait()
	})
}

// 7: ports of outgoing connections are not allocated.
func TestThePortsOfOutgoingConnectionsAreLeftOut(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip(err)
	}
	first, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil || first < 1025 {
		t.Skip("the range of outgoing connections begins at", string(text))
	}
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		a := allocator(b, dcp.Options{Range: strconv.Itoa(first-1) + "-" + strconv.Itoa(first+1)})
		if port := allocate(b, a, "TCP", "127.0.0.1"); port != int32(first-1) {
			t.Fatal(port)
		}
		if port, err := a.Allocate(background, "TCP", "127.0.0.1"); !errors.Is(err, dibs.ErrExhausted) {
			t.Fatal(port, err)
		}
	})
}

// 8 to 11 and 15: every port of a range is allocated once, however it is written.
func TestEveryPortOfTheRangesIsAllocatedOnce(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		for ranges, n := range map[string]int{
			"26010-26020":                         11,
			"26110-26111,26120-26122":             5,
			"26210-26215,26213-26217,26220-26221": 10,
			"26320-26322,26310-26315,26314-26318,26330-26330,26319-26325": 17,
		} {
			a := allocator(b, dcp.Options{Range: ranges})
			got := map[int32]bool{}
			for i := 0; i < n; i++ {
				got[allocate(b, a, "TCP", "127.0.0.1")] = true
			}
			if _, err := a.Allocate(background, "TCP", "127.0.0.1"); len(got) != n || !errors.Is(err, dibs.ErrExhausted) {
				t.Errorf("%s: %v, %v", ranges, got, err)
			}
			allocate(b, a, "UDP", "127.0.0.1") // another protocol, another port space
			allocate(b, a, "TCP", "::1")
		}
	})
}

// 12 to 14.
func TestAddressesHaveOneForm(t *testing.T) {
	for given, want := range map[string]string{
		"localhost": "127.0.0.1", "": "127.0.0.1", "::ffff:127.0.0.1": "127.0.0.1", "[::ffff:127.0.0.1]": "127.0.0.1",
		"[0:0:0:0:0:0:0:1]": "::1", "0:0:0:0:0:0:0:1": "::1", "0.0.0.0": "0.0.0.0", "[::]": "::",
	} {
		if got, err := dcp.Canonical(given); got != want || err != nil {
			t.Errorf("%s: %s, %v", given, got, err)
		}
	}
	for _, wrong := range []string{"example.org", "127.0.0", "[", "1.2.3.4:80", "::1%lo"} {
		if got, err := dcp.Canonical(wrong); !errors.Is(err, dibs.ErrUsage) {
			t.Errorf("%s: %s, %v", wrong, got, err)
		}
	}
}

// 18, 20 and 21.
func TestOwnersExcludeEachOtherAndReleaseOnlyTheirOwn(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		one, two := owner(b), owner(b)
		ok(b, one.ReserveUnprobed(background, "TCP", "127.0.0.1", 26001))
		isHeld(b, two.ReserveUnprobed(background, "TCP", "127.0.0.1", 26001))
		isHeld(b, two.Reserve(background, "TCP", "127.0.0.1", 26001))
		ok(b, two.Release(background, "TCP", "127.0.0.1", 26001))
		isHeld(b, two.ReserveUnprobed(background, "TCP", "127.0.0.1", 26001))
		ok(b, one.Release(background, "TCP", "127.0.0.1", 26001))
		ok(b, one.Release(background, "TCP", "127.0.0.1", 26001))
		ok(b, two.ReserveUnprobed(background, "TCP", "127.0.0.1", 26001))
	})
}

// 19 and 28.
func TestAReservationMayBeRepeatedByItsOwner(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		a := owner(b)
		ok(b, a.ReserveUnprobed(background, "tcp", "127.0.0.1", 26002))
		ok(b, a.ReserveUnprobed(background, "TCP", "127.0.0.1", 26002))
		ok(b, a.Reserve(background, "TCP", "[::ffff:127.0.0.1]", 26002))
		if held := b.Held(); len(held) != 1 || held[0] != 26002 {
			t.Fatal(held)
		}
	})
}

func TestGoroutinesOfOneOwnerMayReserveAPortAtOnce(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		a := allocator(b, dcp.Options{})
		reserve := map[int]func(context.Context, string, string, int32) error{0: a.Reserve, 1: a.ReserveUnprobed}
		for round := 0; round < 3; round++ {
			var wg sync.WaitGroup
			for i := 0; i < 8; i++ {
				wg.Add(1)
				go func(i int) {
					defer wg.Done()
					if err := reserve[i%2](background, "TCP", "127.0.0.1", 26010); err != nil {
						t.Error(err)
					}
				}(i)
			}
			wg.Wait()
			assertHeld(b, 26010)
			ok(b, a.Release(background, "TCP", "127.0.0.1", 26010))
			assertHeld(b)
		}
		// Who waits for the others may give up.
		ctx, cancel := context.WithCancel(background)
		cancel()
		if err := a.Reserve(ctx, "TCP", "127.0.0.1", 26010); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		assertHeld(b)
	})
}

// assertHeld checks which ports are claimed.
func assertHeld(b *dibstest.Bench, ports ...int) {
	b.T.Helper()
	if held := b.Held(); fmt.Sprint(held) != fmt.Sprint(append([]int{}, ports...)) {
		b.T.Fatal(held)
	}
}

// 22 to 27.
func TestWildcardsConflictAsInTheKernel(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		one, two := owner(b), owner(b)
		for i, c := range []struct {
			first, second string
			isSame        bool // of the same owner
			conflict      bool
		}{
			{"0.0.0.0", "127.0.0.1", false, true}, {"127.0.0.1", "0.0.0.0", false, true},
			{"127.0.0.1", "0.0.0.0", true, true}, {"0.0.0.0", "127.0.0.1", true, true},
			{"::", "::1", false, true}, {"0.0.0.0", "::1", false, false},
			{"::", "127.0.0.1", false, true}, // not in DCP: the dual-stack wildcard covers IPv4
			{"127.0.0.1", "127.0.0.2", false, false},
		} {
			port := int32(26100 + i)
			second := two
			if c.isSame {
				second = one
			}
			ok(b, one.ReserveUnprobed(background, "TCP", c.first, port))
			err := second.ReserveUnprobed(background, "TCP", c.second, port)
			if !c.conflict {
				ok(b, err)
				continue
			}
			refusal := isHeld(b, err)
			if c.isSame && (refusal.Blocker == nil || refusal.Blocker.Relation != "own_wildcard") {
				t.Errorf("%s then %s: %+v: %s", c.first, c.second, refusal.Blocker, refusal.Message)
			}
		}
	})
}

// 29.
func TestTheReservationsOfADeadOwnerAreFree(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		stale := b.Sleeper()
		dead := allocator(b, dcp.Options{Owner: stale.Process.Pid})
		live, other := owner(b), owner(b)
		ok(b, live.ReserveUnprobed(background, "TCP", "127.0.0.1", 26003))
		ok(b, dead.ReserveUnprobed(background, "TCP", "127.0.0.1", 26004))
		dibstest.Kill(stale)
		isHeld(b, other.ReserveUnprobed(background, "TCP", "127.0.0.1", 26003))
		ok(b, other.ReserveUnprobed(background, "TCP", "127.0.0.1", 26004))
	})
}

// 30, 32 and 33: a proxy that stops, a service that is deleted, and an endpoint that could not be stored give their
// ports back; another owner may have them. What another owner has meanwhile stays (a second release is harmless).
func TestAReleasedPortIsReservableByAnotherOwner(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		a, other := owner(b), owner(b)
		port, err := a.AllocateOn(background, "TCP", "127.0.0.1", "::1")
		ok(b, err)
		ok(b, a.ReserveUnprobed(background, "TCP", "127.0.0.1", 26031))
		isHeld(b, other.Reserve(background, "TCP", "::1", port))
		if left := a.ReleaseAll(background); left != 0 {
			t.Fatal(left)
		}
		for _, free := range []int32{port, 26031} {
			ok(b, other.Reserve(background, "TCP", "127.0.0.1", free))
		}
		ok(b, a.Release(background, "TCP", "127.0.0.1", port))
		ok(b, a.Release(background, "TCP", "127.0.0.1", 26031))
		if held := b.Held(); len(held) != 2 {
			t.Fatal(held)
		}
	})
}

// 31, as its review has it: port 0 creates nothing, and is no error. Other numbers that are no port are refused.
func TestPortZeroIsNoPort(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		a := allocator(b, dcp.Options{})
		ok(b, a.Reserve(background, "TCP", "127.0.0.1", 0))
		ok(b, a.ReserveUnprobed(background, "TCP", "127.0.0.1", 0))
		ok(b, a.Release(background, "TCP", "127.0.0.1", 0))
		for _, port := range []int32{-1, 65536, 1 << 30} {
			if err := a.Reserve(background, "TCP", "127.0.0.1", port); !errors.Is(err, dibs.ErrUsage) {
				t.Errorf("%d: %v", port, err)
			}
			ok(b, a.Release(background, "TCP", "127.0.0.1", port))
		}
		ok(b, a.Reserve(background, "TCP", "127.0.0.1", 65535))
		if _, err := a.Allocate(background, "SCTP", "127.0.0.1"); !errors.Is(err, dibs.ErrUsage) {
			t.Error(err)
		}
		if _, err := a.AllocateOn(background, "TCP"); !errors.Is(err, dibs.ErrUsage) {
			t.Error(err)
		}
		if held := b.Held(); len(held) != 1 {
			t.Fatal(held)
		}
	})
}

// A port whose server runs already, of a process that dibs does not know: reserved without a probe it is declared.
func TestAPortInUseIsReservedOnlyWithoutAProbe(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		listener, err := net.Listen("tcp", "127.0.0.1:26050")
		if err != nil {
			t.Skip(err)
		}
		defer listener.Close()
		a := owner(b)
		if refusal := isHeld(b, a.Reserve(background, "TCP", "127.0.0.1", 26050)); refusal.Blocker.Relation != "foreign" {
			t.Fatalf("%+v", refusal.Blocker)
		}
		ok(b, a.ReserveUnprobed(background, "TCP", "127.0.0.1", 26050))
		listener.Close()
		narrow := allocator(b, dcp.Options{Range: "26050-26051"})
		if port := allocate(b, narrow, "TCP", "127.0.0.1"); port != 26051 {
			t.Fatal(port)
		}
		ok(b, a.Release(background, "TCP", "127.0.0.1", 26050))
		if held := b.Held(); len(held) != 1 || held[0] != 26051 {
			t.Fatal(held)
		}
		// A port of this very process that listens needs no declaration.
		own := allocator(b, dcp.Options{})
		second, err := net.Listen("tcp", "127.0.0.1:26060")
		if err != nil {
			t.Skip(err)
		}
		defer second.Close()
		ok(b, own.ReserveUnprobed(background, "TCP", "127.0.0.1", 26060))
		isHeld(b, a.ReserveUnprobed(background, "TCP", "127.0.0.1", 26060))
	})
}

func ExampleAllocator() {
	client, err := dibs.New(dibs.Options{})
	if err != nil {
		panic(err)
	}
	ports := dcp.New(client, dcp.Options{})
	defer ports.ReleaseAll(context.Background())
	port, err := ports.Allocate(context.Background(), "TCP", "localhost")
	if err != nil {
		panic(err)
	}
	fmt.Println(port > 0, ports.Reserve(context.Background(), "TCP", "localhost", port))
	// Output: true <nil>
}
