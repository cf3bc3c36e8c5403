/** The network by which rate limits count clients without a key. */

/**
 * The client's IPv4 address, or the /64 of its IPv6 address: one client has 2^64 IPv6 addresses (RFC 6177). `address`: in canonical
 * form, without a zone; empty if the transport does not know it.
 */
export const networkOf = (address: string): string => {
  if (!address.includes(":")) return address
  const [head = "", tail] = address.split("::", 2)
  const front = head === "" ? [] : head.split(":")
  const back = tail === undefined || tail === "" ? [] : tail.split(":")
  const zeros = tail === undefined ? [] : Array.from({ length: Math.max(0, 8 - front.length - back.length) }, () => "0")
  return `${[...front, ...zeros, ...back].slice(0, 4).join(":")}::/64`
}
