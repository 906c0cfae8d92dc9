// SPDX-License-Identifier: MIT

package dibs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs.dev/go/dibs"
	"dibs.dev/go/dibs/internal/dibstest"
)

func TestABatchIsAllOrNothing(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		block := must[[]dibs.Claim](b)(c.ClaimBatch(background, dibs.Batch{
			Request: dibs.Request{Name: "/job/rank", Range: "21000-21099"}, Count: 8, Contiguous: true, Align: 8,
		}))
		for i, claim := range block {
			if claim.Port != block[0].Port+uint16(i) || claim.Name != fmt.Sprintf("job/rank/%d", i) {
				t.Fatalf("%d: %+v", i, claim)
			}
		}
		if block[0].Port%8 != 0 {
			t.Fatal(block[0].Port)
		}
		three := dibs.Request{Range: "21200-21202"}
		_, err := c.ClaimBatch(background, dibs.Batch{Request: three, Count: 4})
		assertCode(b, err, dibs.ErrExhausted)
		assertHeld(b, 8)
		dry := must[[]dibs.Claim](b)(c.ClaimBatch(background, dibs.Batch{Request: three, Count: 3, DryRun: true}))
		if dry[0].ID != 0 || dry[2].Port == dry[0].Port {
			t.Fatalf("%+v", dry)
		}
		assertHeld(b, 8)
		if n := must[int](b)(c.Release(background, dibs.Which{Name: "/job/rank"})); n != 8 {
			t.Fatalf("%d of the batch ended", n)
		}
		named := must[[]dibs.Claim](b)(c.ClaimBatch(background, dibs.Batch{Names: []string{"/a/x", "/b/y"}}))
		if named[0].Name != "a/x" || named[1].Name != "b/y" {
			t.Fatalf("%+v", named)
		}
		for _, wrong := range []dibs.Batch{
			{Names: []string{"/a"}, Count: 2}, {Names: []string{"/a"}, Request: dibs.Request{Name: "/b"}}, {Count: -1},
			{Count: 5000}, {Align: 4}, {Request: dibs.Request{Port: 21300}, Count: 2},
		} {
			_, err := c.ClaimBatch(background, wrong)
			assertCode(b, err, dibs.ErrUsage)
		}
	})
}

func TestGetKeepsAPortWithoutAHolder(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		got := claimed(b)(c.Get(background, dibs.Request{Name: "/shop/db", Port: 21432, Mode: dibs.Preferred}))
		if got.Port != 21432 || !got.Kept || got.Holder != nil {
			t.Fatalf("%+v", got)
		}
		if again := claimed(b)(c.Get(background, dibs.Request{Name: "/shop/db"})); again.Port != 21432 || !again.WasThere {
			t.Fatalf("%+v", again)
		}
		_, err := c.Get(background, dibs.Request{Name: "/shop/db", Port: 21433})
		refusal := assertCode(b, err, dibs.ErrTaken)
		if refusal.Blocker == nil || refusal.Blocker.Relation != "same_name" || !refusal.Blocker.Differs {
			t.Fatalf("%+v", refusal.Blocker)
		}
		_, err = c.Get(background, dibs.Request{Name: "/shop/db", Port: 21433, Mode: dibs.Declared})
		assertCode(b, err, dibs.ErrUsage)
	})
}

func TestModesProtocolsAndAddresses(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		both := claimed(b)(c.Claim(background, dibs.Request{
			Port: 21500, Protos: []dibs.Proto{dibs.TCP, dibs.UDP}, Addresses: []string{"127.0.0.1", "::1"}, Holder: dibs.Lease(time.Hour),
		}))
		want := map[dibs.Binding]bool{
			{Proto: dibs.TCP, Address: "127.0.0.1", Port: 21500}: true, {Proto: dibs.UDP, Address: "127.0.0.1", Port: 21500}: true,
			{Proto: dibs.TCP, Address: "::1", Port: 21500}: true, {Proto: dibs.UDP, Address: "::1", Port: 21500}: true,
		}
		got := map[dibs.Binding]bool{}
		for _, binding := range both.Bindings {
			got[binding] = true
		}
		if !reflect.DeepEqual(got, want) || both.Kind != "static" {
			t.Fatalf("%+v", both)
		}
		for _, r := range []dibs.Request{
			{Port: 21500}, {Port: 21500, Addresses: []string{"::1"}}, {Port: 21500, Protos: []dibs.Proto{dibs.UDP}},
		} {
			_, err := c.Claim(background, r)
			refusal := assertCode(b, err, dibs.ErrTaken)
			if refusal.Blocker == nil || refusal.Blocker.Port != 21500 {
				t.Fatalf("%+v", refusal.Blocker)
			}
		}
		other := claimed(b)(c.Claim(background, dibs.Request{Port: 21500, Addresses: []string{"127.0.0.2"}}))
		if other.Port != 21500 {
			t.Fatal(other.Port)
		}
		if near := claimed(b)(c.Claim(background, dibs.Request{Port: 21500, Mode: dibs.Preferred})); near.Port == 21500 {
			t.Fatal("a port was given twice")
		}
		declared := claimed(b)(c.Claim(background, dibs.Request{Port: 21500, Mode: dibs.Declared}))
		if declared.Exclusive || declared.Port != 21500 {
			t.Fatalf("%+v", declared)
		}
		kept := claimed(b)(c.Claim(background, dibs.Request{Holder: dibs.Keep()}))
		lease := claimed(b)(c.Claim(background, dibs.Request{Holder: dibs.Lease(0)}))
		if !kept.Kept || kept.Holder != nil || lease.Holder.TTLMS != 600000 {
			t.Fatalf("%+v %+v", kept, lease.Holder)
		}
		sleeper := b.Sleeper()
		if held := claimed(b)(c.Claim(background, dibs.Request{Holder: dibs.Process(sleeper.Process.Pid)})); held.Holder.PID != sleeper.Process.Pid {
			t.Fatalf("%+v", held.Holder)
		}
	})
}

// Each error, and the words of dibs: those that the program says for the same.
func TestEveryErrorHasItsKindAndTheWordsOfTheProgram(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		claimed(b)(c.Claim(background, dibs.Request{Name: "/other/web", Port: 21600, Holder: dibs.Keep()}))
		pid := fmt.Sprint(os.Getpid())
		for _, one := range []struct {
			code dibs.Code
			call func() error
			line []string
		}{
			{dibs.ErrFailure, func() error {
				_, err := c.Claim(background, dibs.Request{Addresses: []string{"192.0.2.1"}})
				return err
			}, []string{"claim", "--pid", pid, "--address", "192.0.2.1"}},
			{dibs.ErrUsage, func() error {
				_, err := c.Claim(background, dibs.Request{Range: "9-1"})
				return err
			}, nil}, // a daemon also says where in the request
			{dibs.ErrTaken, func() error {
				_, err := c.Claim(background, dibs.Request{Port: 21600})
				return err
			}, []string{"claim", "--pid", pid, "--port", "21600"}},
			{dibs.ErrNotFound, func() error {
				_, err := c.Find(background, dibs.Which{Name: "/nowhere/web"})
				return err
			}, []string{"get", "--existing", "/nowhere/web"}},
			{dibs.ErrNotFound, func() error {
				_, err := c.Claim(background, dibs.Request{Holder: dibs.Process(1 << 30)})
				return err
			}, []string{"claim", "--pid", fmt.Sprint(1 << 30)}},
			{dibs.ErrNotFound, func() error {
				_, err := c.Claim(background, dibs.Request{Pool: "nopool"})
				return err
			}, []string{"claim", "--pid", pid, "--pool", "nopool"}},
			{dibs.ErrTaken, func() error {
				_, err := c.Assert(background, dibs.Which{Name: "/other/web"})
				return err
			}, []string{"assert", "/other/web"}},
			{dibs.ErrUsage, func() error {
				_, err := c.Claim(background, dibs.Request{Holder: dibs.Lease(100000 * time.Hour)})
				return err
			}, nil},
			{dibs.ErrExhausted, func() error {
				_, err := c.Claim(background, dibs.Request{Range: "21600-21600"})
				return err
			}, nil},
		} {
			refusal := assertCode(b, one.call(), one.code)
			if one.line == nil {
				continue
			}
			_, stderr, code := b.Dibs(append(one.line, "--json")...)
			var said struct {
				Error struct {
					Message string
					Blocker *dibs.Blocker
				}
			}
			if err := json.Unmarshal([]byte(stderr), &said); err != nil || code != int(one.code) {
				t.Fatalf("%v: exit %d, %v: %s", one.line, code, err, stderr)
			}
			if said.Error.Message != refusal.Message || !reflect.DeepEqual(said.Error.Blocker, refusal.Blocker) {
				t.Errorf("%v:\n  program: %s %+v\n  client:  %s %+v", one.line, said.Error.Message, said.Error.Blocker,
					refusal.Message, refusal.Blocker)
			}
		}
	})
}

func TestAnotherUsersManifestIsDenied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		manifest := filepath.Join(b.Dir, "dibs.yaml")
		if err := os.WriteFile(manifest, []byte("roles: { web: { ports: [ { name: http } ] } }\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(manifest, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		_, err := c.Up(background)
		assertCode(b, err, dibs.ErrDenied)
	})
}

// Mistakes that are found before dibs is asked.
func TestRequestsThatCannotBeMeantAreRefused(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		for _, r := range []dibs.Request{
			{Mode: dibs.Required}, {Port: 1, Mode: "often"}, {Pool: "a", Range: "1-2"}, {Holder: dibs.Process(-1)},
			{Holder: dibs.Lease(-time.Second)}, {Wait: -1}, {Addresses: []string{""}}, {Protos: []dibs.Proto{""}},
			{Range: "1\x002"}, {Addresses: []string{"\xff"}}, {Addresses: []string{"example.org"}}, {Protos: []dibs.Proto{"dccp"}},
			{Pool: "--all"}, {Hold: "tight"},
		} {
			if _, err := c.Claim(background, r); !errors.Is(err, dibs.ErrUsage) && !errors.Is(err, dibs.ErrNotFound) {
				t.Errorf("%+v: %v", r, err)
			}
		}
		for _, w := range []dibs.Which{{}, {Token: "../../v1/daemon"}, {Token: "1.1.zz"}, {Token: strings.Repeat("1", 80)}} {
			_, err := c.Release(background, w)
			assertCode(b, err, dibs.ErrUsage)
		}
		assertHeld(b, 0)
	})
}

func TestHostileNamesAreNamesOrRefused(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		good := []string{
			"--all", "-n", "$(reboot)", "`id`", "';--", `"`, `\`, "{}", "%2f", "a?b&c=d#e", "ünïcode", "名前", "a+b", "*", "~", "=x", "a;b",
			"http:", "-", "@", "\u202eltr", "\u2028", strings.Repeat("x", 63),
		}
		for _, name := range good {
			full := "hostile/" + name
			claim, err := c.Claim(background, dibs.Request{Name: "/" + full})
			if err != nil {
				t.Errorf("%q: %v", name, err)
				continue
			}
			if claim.Name != full {
				t.Errorf("%q became %q", full, claim.Name)
			}
			found, err := c.Find(background, dibs.Which{Name: "/" + full})
			if err != nil || found.ID != claim.ID {
				t.Errorf("%q: %v, %+v", full, err, found)
			}
			if n, err := c.Release(background, dibs.Which{Name: "/" + full}); err != nil || n != 1 {
				t.Errorf("%q: %d ended, %v", full, n, err)
			}
		}
		bad := []string{
			"a b", "a\nb", "a\tb", "a\x1b[2Jb", "a\x00b", "\xff", "", ".", "..", "../x", "a//b", "a/", "a/b/c/d/e/f/g",
			strings.Repeat("x", 64), strings.Repeat("x/", 5000), "\u0085",
		}
		for _, name := range bad {
			for _, full := range []string{"/hostile/" + name, "/" + name} {
				if _, err := c.Claim(background, dibs.Request{Name: full}); !errors.Is(err, dibs.ErrUsage) {
					t.Errorf("claim of %.40q: %v", full, err)
				}
			}
		}
		for _, name := range []string{"8080", ":8080", "/", "//", "/8080"} {
			if _, err := c.Claim(background, dibs.Request{Name: name}); !errors.Is(err, dibs.ErrUsage) {
				t.Errorf("claim of %q: %v", name, err)
			}
			if _, err := c.Release(background, dibs.Which{Name: name}); err != nil && !errors.Is(err, dibs.ErrUsage) {
				t.Errorf("release of %q: %v", name, err)
			}
		}
		assertHeld(b, 0)
	})
}

func TestRelativeNamesBelongToTheProject(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		made := claimed(b)(c.Claim(background, dibs.Request{Name: "--all"}))
		if made.Name != "project/--all" || made.Project != b.Dir {
			t.Fatalf("%+v", made)
		}
		web := claimed(b)(c.Get(background, dibs.Request{Name: "web"}))
		out, _, _ := b.Dibs("get", "web")
		if strings.TrimSpace(out) != fmt.Sprint(web.Port) {
			t.Fatalf("%s instead of %d", out, web.Port)
		}
		elsewhere := client(b, dibs.Options{Dir: filepath.Dir(b.Dir)})
		if found := claimed(b)(elsewhere.Find(background, dibs.Which{Name: "/project/web"})); found.Port != web.Port {
			t.Fatalf("%+v", found)
		}
		if other := claimed(b)(elsewhere.Get(background, dibs.Request{Name: "web"})); other.Port == web.Port {
			t.Fatal("two directories share a name")
		}
		grouped := client(b, dibs.Options{Group: "shop"})
		if claim := claimed(b)(grouped.Get(background, dibs.Request{Name: "web"})); claim.Name != "shop/web" || claim.Project != "" {
			t.Fatalf("%+v", claim)
		}
		// Ended from another directory, by its full name.
		if n := must[int](b)(elsewhere.Release(background, dibs.Which{Name: "/project/web"})); n != 1 {
			t.Fatal(n)
		}
		if n := must[int](b)(c.Release(background, dibs.Which{Name: "--all"})); n != 1 {
			t.Fatal(n)
		}
		if n := must[int](b)(elsewhere.Release(background, dibs.Which{Port: made.Port})); n != 0 {
			t.Fatal(n)
		}
	})
}

func TestAPortFindsItsClaimFromAnyDirectory(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		port := claimed(b)(client(b, dibs.Options{}).Get(background, dibs.Request{Name: "web"})).Port
		elsewhere := client(b, dibs.Options{Dir: filepath.Dir(b.Dir)})
		if found := claimed(b)(elsewhere.Find(background, dibs.Which{Port: port})); found.Name != "project/web" {
			t.Fatalf("%+v", found)
		}
		if n := must[int](b)(elsewhere.Release(background, dibs.Which{Port: port})); n != 1 {
			t.Fatal(n)
		}
		assertHeld(b, 0)
	})
}

func TestTheManifestAsAWhole(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		_, err := c.Up(background)
		assertCode(b, err, dibs.ErrNotFound)
		manifest := "roles:\n  api: { ports: [ { name: http, env: PORT } ] }\n" +
			"  web: { instances: 2, ports: [ { name: http, env: PORT } ], references: [ { env: API_PORT, from: api.http } ] }\n"
		if err := os.WriteFile(filepath.Join(b.Dir, "dibs.yaml"), []byte(manifest), 0o644); err != nil {
			t.Fatal(err)
		}
		changes := must[[]dibs.Change](b)(c.Up(background))
		if len(changes) != 3 || changes[0].What != "add" || changes[0].Claim.Name != "project/api/0/-/http" || changes[0].Claim.Port == 0 {
			t.Fatalf("%+v", changes)
		}
		env := must[map[string]string](b)(c.Env(background, "web/1"))
		if env["API_PORT"] != fmt.Sprint(changes[0].Claim.Port) || env["PORT"] == "" {
			t.Fatal(env)
		}
		if all := must[map[string]string](b)(c.Env(background, "")); all["API_HTTP_PORT"] != env["API_PORT"] {
			t.Fatal(all)
		}
		api := claimed(b)(c.Get(background, dibs.Request{Name: "api"}))
		if api.Port != changes[0].Claim.Port || !api.WasThere {
			t.Fatalf("%+v", api)
		}
		_, err = c.Get(background, dibs.Request{Name: "nothing"})
		assertCode(b, err, dibs.ErrNotFound)
		_, err = c.Env(background, "--nothing")
		if !errors.Is(err, dibs.ErrUsage) && !errors.Is(err, dibs.ErrNotFound) {
			t.Fatal(err)
		}
		if down := must[[]dibs.Change](b)(c.Down(background)); len(down) != 3 || down[2].What != "drop" {
			t.Fatalf("%+v", down)
		}
		assertHeld(b, 0)
	})
}

func TestListFiltersAndPages(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		must[[]dibs.Claim](b)(c.ClaimBatch(background, dibs.Batch{Request: dibs.Request{Name: "/many/x", Range: "20000-24999", Holder: dibs.Lease(time.Hour)}, Count: 1203}))
		udp := claimed(b)(c.Claim(background, dibs.Request{Name: "/few/dns", Port: 25000, Protos: []dibs.Proto{dibs.UDP}}))
		count := func(f dibs.Filter) int {
			list, seen := c.List(background, f), map[uint64]bool{}
			for list.Next() {
				if seen[list.Claim().ID] || list.Claim().Token != "" || list.Claim().Life != dibs.Alive {
					t.Fatalf("%+v", list.Claim())
				}
				seen[list.Claim().ID] = true
			}
			if list.Err() != nil {
				t.Fatal(list.Err())
			}
			return len(seen)
		}
		for n, filters := range map[int][]dibs.Filter{
			1204: {{}, {Principal: udp.Principal}},
			1203: {{Prefix: "/many"}, {Prefix: "/many/x"}, {Proto: dibs.TCP}},
			1:    {{Prefix: "/few"}, {Pool: "default"}, {Proto: dibs.UDP}, {Port: udp.Port}, {Prefix: "/few/dns", Port: udp.Port}},
			0:    {{Prefix: "/man"}, {Principal: "uid:4242"}, {Project: "/nowhere"}, {Pool: "nothing"}},
		} {
			for _, f := range filters {
				if got := count(f); got != n {
					t.Errorf("%+v: %d instead of %d", f, got, n)
				}
			}
		}
		list := c.List(background, dibs.Filter{Proto: "dccp"})
		if list.Next() {
			t.Fatal(list.Claim())
		}
		assertCode(b, list.Err(), dibs.ErrUsage)
	})
}

func TestExplainAssertAndPools(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		listener := must[*dibs.Listener](b)(c.Listen(background, dibs.Request{Name: "/shop/web", Addresses: []string{"127.0.0.1"}}))
		defer listener.Close()
		port := listener.Claim.Port
		report := must[dibs.Report](b)(c.Explain(background, port, dibs.Question{Addresses: []string{"127.0.0.1"}}))
		if report.CanClaim || report.Port != port || len(report.Claims) != 1 || report.Claims[0].Name != "shop/web" ||
			len(report.Sockets) != 1 || report.Sockets[0].PID != os.Getpid() || !report.Sockets[0].Serves ||
			report.Reasons[0].Kind != "claimed" || report.Reasons[0].Text == "" || report.Verdict == "" {
			t.Fatalf("%+v", report)
		}
		free := must[dibs.Report](b)(c.Explain(background, port, dibs.Question{Protos: []dibs.Proto{dibs.UDP}}))
		if !free.CanClaim {
			t.Fatalf("%+v", free)
		}
		for _, w := range []dibs.Which{listener.Claim.Which(), {Name: "/shop/web"}, {Port: port}} {
			socket := must[dibs.Socket](b)(c.Assert(background, w))
			if socket.Port != port || socket.PID != os.Getpid() {
				t.Fatalf("%+v: %+v", w, socket)
			}
		}
		_, err := c.Explain(background, port, dibs.Question{Addresses: []string{"nonsense"}})
		assertCode(b, err, dibs.ErrUsage)
		pools := must[[]dibs.Pool](b)(c.Pools(background))
		if len(pools) != 1 || pools[0].Name != "default" || pools[0].Ranges != "20000-32767" || pools[0].Usage.Dynamic != 1 {
			t.Fatalf("%+v", pools)
		}
	})
}

func TestGoroutinesShareAClient(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		rounds := dibstest.Long(50, 2)
		var mu sync.Mutex
		held := map[uint16]bool{}
		var wg sync.WaitGroup
		for g := 0; g < 32; g++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := 0; i < rounds; i++ {
					claim, err := c.Claim(background, dibs.Request{Range: "22000-22063"})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if held[claim.Port] {
						t.Errorf("port %d was given twice", claim.Port)
					}
					held[claim.Port] = true
					mu.Unlock()
					if i == rounds-1 {
						return
					}
					mu.Lock()
					delete(held, claim.Port)
					mu.Unlock()
					if n, err := c.Release(background, claim.Which()); n != 1 || err != nil {
						t.Error(n, err)
					}
				}
			}()
		}
		wg.Wait()
		assertHeld(b, 32)
	})
}

func TestAClaimWaitsForAPortThatBecomesFree(t *testing.T) {
	dibstest.Both(t, func(t *testing.T, b *dibstest.Bench) {
		c := client(b, dibs.Options{})
		first := claimed(b)(c.Claim(background, dibs.Request{Port: 21700}))
		_, err := c.Claim(background, dibs.Request{Port: 21700, Wait: 50 * time.Millisecond})
		assertCode(b, err, dibs.ErrTaken)
		done := make(chan error, 1)
		go func() {
			_, err := c.Claim(background, dibs.Request{Port: 21700, Wait: time.Minute})
			done <- err
		}()
		if n := must[int](b)(c.Release(background, first.Which())); n != 1 {
			t.Fatal(n)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		// A name whose claim differs does not become free by waiting.
		claimed(b)(c.Claim(background, dibs.Request{Name: "/shop/web", Port: 21701}))
		_, err = c.Claim(background, dibs.Request{Name: "/shop/web", Port: 21702, Wait: time.Hour})
		assertCode(b, err, dibs.ErrTaken)
	})
}
