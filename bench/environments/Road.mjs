/**
 * Loaded into the service before its own code: the part of DNS and of the network between the service and a registry with a public address.
 * `BENCH_ROAD` is `NAME=PORT`: the name has a public address that is unassigned (IANA's IPv6 assignments, 2026-11), and connections to it
 * end at that port of the loopback interface. The service still decides on both by itself.
 */
import dns from "node:dns/promises"
import { syncBuiltinESMExports } from "node:module"
import net from "node:net"

const [name, port] = (process.env["BENCH_ROAD"] ?? "").split("=")
const ADDRESS = "2e00::1"

const { lookup } = dns
dns.lookup = (asked, options) => asked === `${name}.` ? Promise.resolve([{ address: ADDRESS, family: 6 }]) : lookup(asked, options)

const { connect } = net
net.connect = (...args) => args[0]?.host === ADDRESS ? connect({ ...args[0], host: "127.0.0.1", port: Number(port) }) : connect(...args)

syncBuiltinESMExports()
