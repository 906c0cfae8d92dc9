module dibs.dev/go/dibs

go 1.19
