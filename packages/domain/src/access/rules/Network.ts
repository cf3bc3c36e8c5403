/** The network that limits of strangers count by. */

/**
 * The client's IPv4 address or, since one client has 2^64 addresses of IPv6 (RFC 6177), its /64. `address`: in its one spelling, without
 * a zone; empty where the transport does not tell.
 */
export const networkOf = (address: string): string => {
  if (!address.includes(":")) return address
  const [head = "", tail] = address.split("::", 2)
  const front = head === "" ? [] : head.split(":")
  const back = tail === undefined || tail === "" ? [] : tail.split(":")
  const zeros = tail === undefined ? [] : Array.from({ length: Math.max(0, 8 - front.length - back.length) }, () => "0")
  return `${[...front, ...zeros, ...back].slice(0, 4).join(":")}::/64`
}
