// SPDX-License-Identifier: MIT

package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs.dev/go/dibs"
)

func Example() {
	ctx := context.Background()
	client, err := dibs.New(dibs.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	claim, err := client.Claim(ctx, dibs.Request{}) // held by this process until it ends
	if err != nil {
		panic(err)
	}
	_, err = client.Claim(ctx, dibs.Request{Port: claim.Port})
	fmt.Println(errors.Is(err, dibs.ErrTaken))
	// Output: true
}

func ExampleClient_Listen() {
	client, err := dibs.New(dibs.Options{})
	if err != nil {
		panic(err)
	}
	listener, err := client.Listen(context.Background(), dibs.Request{Addresses: []string{"127.0.0.1"}})
	if err != nil {
		panic(err)
	}
	defer listener.Close() // also ends the claim
	fmt.Println(listener.Holds())
	// Output: fd
}

func ExampleClient_ClaimBatch() {
	client, err := dibs.New(dibs.Options{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ranks, err := client.ClaimBatch(ctx, dibs.Batch{
		Request:    dibs.Request{Name: "/train/rank", Holder: dibs.Lease(time.Hour), Wait: 10 * time.Second},
		Count:      4,
		Contiguous: true,
	})
	if err != nil {
		panic(err)
	}
	n, err := client.Release(ctx, dibs.Which{Name: "/train/rank"})
	fmt.Println(ranks[3].Name, ranks[3].Port-ranks[0].Port, n, err)
	// Output: train/rank/3 3 4 <nil>
}

func ExampleClient_Events() {
	client, err := dibs.New(dibs.Options{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	newest, err := client.Newest(ctx)
	if err != nil {
		panic(err)
	}
	if _, err := client.Claim(ctx, dibs.Request{Name: "/shop/web"}); err != nil {
		panic(err)
	}
	events := client.Events(ctx, newest)
	for events.Next() {
		fmt.Println(events.Event().What, events.Event().Name)
		break
	}
	// Output: claimed shop/web
}

func ExampleError() {
	client, err := dibs.New(dibs.Options{})
	if err != nil {
		panic(err)
	}
	_, err = client.Claim(context.Background(), dibs.Request{Range: "9-1"})
	var refusal *dibs.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Code == dibs.ErrUsage, refusal.Message)
	}
	// Output: true port range '9-1': end port cannot be less than start port
}
