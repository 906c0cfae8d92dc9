// SPDX-License-Identifier: MIT
// A static server with a hard-coded number: it answers each line with its copy and the numbers that it sees.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
)

func serve(c net.Conn) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		fmt.Fprintln(c, os.Getenv("COPY"), c.LocalAddr().(*net.TCPAddr).Port)
	}
}

func main() {
	listener, err := net.Listen("tcp", ":9000")
	if err != nil {
		panic(err)
	}
	// Its own server, by its own number.
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			go serve(c)
		}
	}()
	c, err := net.Dial("tcp", "localhost:9000")
	if err != nil || c.RemoteAddr().(*net.TCPAddr).Port != 9000 {
		panic(fmt.Sprint("no way to itself: ", err))
	}
	select {}
}
