/** This machine's loopback address, for servers that only programs of this machine use. */
import { networkInterfaces } from "node:os"

/** `127.0.0.1`; on a machine without IPv4, not even on loopback, `::1`. */
export const loopback = (): "127.0.0.1" | "::1" => {
  const internal = Object.values(networkInterfaces()).flatMap((all) => all ?? []).filter(({ internal }) => internal)
  return internal.some(({ address }) => address === "::1") && !internal.some(({ address }) => address === "127.0.0.1")
    ? "::1"
    : "127.0.0.1"
}

/** The web address of a server at this port of {@link loopback}, without a slash at its end. */
export const loopbackUrl = (port: number): string => {
  const host = loopback()
  return `http://${host === "::1" ? "[::1]" : host}:${port}`
}
