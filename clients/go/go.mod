module github.com/slipway-dev/slipway/clients/go

go 1.19
