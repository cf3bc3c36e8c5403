/**
 * The address of a client: the other end of the connection or, if that is a trusted proxy, the address that the proxy names in
 * `X-Forwarded-For`. Without trusted proxies the header is ignored, because any client can send it.
 */
import { BlockList, isIP, SocketAddress } from "node:net"

/** Whether an address, as `normalized` gives it, is that of a proxy whose word is taken. */
export type Trust = (address: string) => boolean

/** No proxy is trusted. */
export const trustNone: Trust = () => false

/** An IPv4 address on an IPv6 socket is the IPv4 address; every IPv6 address has one spelling, without a zone. `null`: none. */
const normalized = (text: string): string | null => {
  const [address = ""] = text.split("%", 1)
  const family = isIP(address)
  if (family === 4) return address
  if (family !== 6) return null
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/iu.exec(address) ?? []
  return mapped ?? new SocketAddress({ address, family: "ipv6" }).address
}

/** Addresses and networks between commas, such as `10.0.0.5, 192.168.0.0/16, fd00::/8`. `null`: that is no such list. */
export const parse = (list: string): Trust | null => {
  const known = new BlockList()
  for (const entry of list.split(",")) {
    const [, text = "", bits] = /^\s*([^/\s]+)(?:\/(\d{1,3}))?\s*$/u.exec(entry) ?? []
    const address = normalized(text)
    if (address === null || text.includes("%")) return null
    const family = isIP(address) === 4 ? "ipv4" : "ipv6"
    if (bits === undefined) known.addAddress(address, family)
    else if (Number(bits) > (isIP(text) === 4 ? 32 : 128) || isIP(text) !== isIP(address)) return null
    else known.addSubnet(address, Number(bits), family)
  }
  return (address) => known.check(address, isIP(address) === 4 ? "ipv4" : "ipv6")
}

/** The address in an entry of the header, which may have a port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const entryOf = (text: string): string | null => {
  const [, bracketed, withPort] = /^(?:\[([^\]]*)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/u.exec(text) ?? []
  return normalized(bracketed ?? withPort ?? text)
}

/** Proxies behind each other; a longer list is somebody's invention. */
const MAX_HOPS = 32

/**
 * Each proxy appends whom it heard the request from. So the list is read from its end, for as long as those who appended
 * are trusted: the first address of somebody else is the client, and what stands before it is only that client's word.
 * Where an entry cannot be read, the one who handed it on is all that is known.
 */
export const clientOf = (peer: string | undefined, forwardedFor: string | undefined, isTrusted: Trust): string => {
  let client = normalized(peer ?? "") ?? ""
  let rest = forwardedFor ?? ""
  for (let hops = 0; rest !== "" && hops < MAX_HOPS && client !== "" && isTrusted(client); hops++) {
    const comma = rest.lastIndexOf(",")
    const entry = entryOf(rest.slice(comma + 1).trim())
    if (entry === null) break
    client = entry
    rest = rest.slice(0, Math.max(0, comma))
  }
  return client
}
