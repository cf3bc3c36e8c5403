/** The addresses at which a worker may serve trees: the protocol is authenticated, but not encrypted. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { lookup } from "node:dns/promises"
import { BlockList, isIPv6 } from "node:net"
import { type OptionName, OptionNames } from "./options/OptionNames.ts"

/** Loopback; RFC 1918; link-local; RFC 6598, for private networks of clouds; unique local (RFC 4193). */
const privateNetworks = new BlockList()
for (
  const [network, prefix] of [
    ["127.0.0.0", 8],
    ["10.0.0.0", 8],
    ["172.16.0.0", 12],
    ["192.168.0.0", 16],
    ["169.254.0.0", 16],
    ["100.64.0.0", 10]
  ] as const
) privateNetworks.addSubnet(network, prefix, "ipv4")
for (const [network, prefix] of [["::1", 128], ["fc00::", 7], ["fe80::", 10]] as const) privateNetworks.addSubnet(network, prefix, "ipv6")

/** Whether an IP address is private. An address for all interfaces is not. */
export const isPrivate = (ip: string): boolean => privateNetworks.check(ip, isIPv6(ip) ? "ipv6" : "ipv4")

export interface Endpoint {
  readonly host: string
  readonly port: number
}

const FORM = /^(?:\[(?<six>[0-9A-Fa-f:]+)\]|(?<host>[\w.-]+)):(?<port>\d{1,5})$/u

/** Parses `host:port` or `[v6]:port`; `null`: invalid. */
export const parse = (text: string): Endpoint | null => {
  const groups = FORM.exec(text)?.groups
  const port = Number(groups?.["port"])
  const host = groups?.["six"] ?? groups?.["host"]
  return host === undefined || port > 65_535 ? null : { host, port }
}

export const format = ({ host, port }: Endpoint): string => isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`

/** A worker's server with an address of its own. */
export interface Served {
  /** Its name for people. */
  readonly what: string
  /** Port 0: any free port. */
  readonly listen: Endpoint
  readonly option: OptionName
}

/** The address is not allowed. Another one must be chosen. */
export class CannotServe extends Schema.TaggedError<CannotServe>()("CannotServe", {
  what: Schema.String,
  address: Schema.String,
  problem: Schema.String,
  /** The name of the address's option: see {@link OptionNames}. */
  option: Schema.String
}) {
  override get message() {
    return `A worker cannot serve ${this.what} at ${this.address}: ${this.problem} Choose another with ${this.option}.`
  }
}

export const refusal = ({ listen, option, what }: Served) =>
  Effect.map(
    OptionNames,
    (nameOf) => (problem: string) => new CannotServe({ what, address: format(listen), problem, option: nameOf(option) })
  )

/** The IP address of the endpoint's name, which must be private. */
export const resolve = Effect.fnUntraced(function*(served: Served) {
  const { host, port } = served.listen
  const refuse = yield* refusal(served)
  const { address } = yield* Effect.tryPromise({
    try: () => lookup(host),
    catch: () => refuse("the name has no address.")
  })
  return isPrivate(address) ? { host: address, port } : yield* refuse("it is neither on loopback nor on a private network.")
})
