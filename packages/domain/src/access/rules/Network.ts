/** The network by which rate limits count clients without a key. */

/**
 * The client's IPv4 address, or the /64 of its IPv6 address: one client has 2^64 IPv6 addresses (RFC 6177). `address`: in canonical
 * form, without a zone; empty if the transport does not know it.
 */
export const networkOf = (address: string): string => {
  if (!address.includes(":")) return address
  const [head = "", tail = ""] = address.split("::")
  const front = head === "" ? [] : head.split(":")
  // Without a tail this is one empty part, the eighth or later.
  const back = tail.split(":")
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => "0")
  return `${[...front, ...zeros, ...back].slice(0, 4).join(":")}::/64`
}
