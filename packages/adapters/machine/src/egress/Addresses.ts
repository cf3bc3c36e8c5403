/** Which addresses sandboxes may be connected to: those of the public internet, wherever their name says they are. */
import { BlockList, isIP, type LookupFunction } from "node:net"
import { networkInterfaces } from "node:os"

/** IANA's special-purpose registry (2026-11), and what clouds put on public addresses of their own. */
const special = new BlockList()
for (
  const [address, prefix] of [
    ["0.0.0.0", 8],
    ["10.0.0.0", 8],
    ["100.64.0.0", 10],
    ["127.0.0.0", 8],
    ["169.254.0.0", 16],
    ["172.16.0.0", 12],
    ["192.0.0.0", 24],
    ["192.0.2.0", 24],
    ["192.31.196.0", 24],
    ["192.52.193.0", 24],
    ["192.88.99.0", 24],
    ["192.168.0.0", 16],
    ["192.175.48.0", 24],
    ["198.18.0.0", 15],
    ["198.51.100.0", 24],
    ["203.0.113.0", 24],
    ["224.0.0.0", 3],
    // Azure's platform, as seen from each machine.
    ["168.63.129.16", 32]
  ] as const
) special.addSubnet(address, prefix, "ipv4")
for (const [address, prefix] of [["2001::", 23], ["2001:db8::", 32], ["2002::", 16], ["2620:4f:8000::", 48], ["3fff::", 20]] as const) {
  special.addSubnet(address, prefix, "ipv6")
}

/** All of IPv6 that is given out. Mapped, translated, local and multicast addresses are outside of it. */
const global6 = new BlockList()
global6.addSubnet("2000::", 3, "ipv6")

/** `false` also for this machine's own addresses, behind which its services listen. */
export const isPublic = (address: string): boolean => {
  const family = isIP(address)
  if (family === 0) return false
  const kind = family === 4 ? "ipv4" : "ipv6"
  if (special.check(address, kind) || (family === 6 && !global6.check(address, "ipv6"))) return false
  const own = new BlockList()
  for (const { address: ours, family } of Object.values(networkInterfaces()).flatMap((all) => all ?? [])) {
    own.addAddress(ours, family === "IPv4" ? "ipv4" : "ipv6")
  }
  return !own.check(address, kind)
}

/** The `lookup` of a connection to one of these addresses, whatever the name: it was resolved and checked before. */
export const pinnedTo = (addresses: ReadonlyArray<string>): LookupFunction => (_name, { all }, done) => {
  const found = addresses.map((address) => ({ address, family: isIP(address) }))
  if (all === true) return done(null, found)
  done(null, found[0]?.address ?? "", found[0]?.family ?? 0)
}
