/** Sockets of this machine that listen on a port of its loopback interface, from `/proc`. Without `/proc` no socket is found. */
import { codeOf, ifAbsent, ifEnded } from "@slipway/domain/files/rules/SystemError"
import { readdirSync, readFileSync, readlinkSync } from "node:fs"

export interface ListeningSocket {
  readonly host: "127.0.0.1" | "::1"
  readonly inode: string
  /** The user that made it. */
  readonly uid: number
}

const TABLES = [
  // 127.0.0.1 and 0.0.0.0, as the kernel writes them on little-endian machines.
  { path: "/proc/net/tcp", host: "127.0.0.1", addresses: ["0100007F", "00000000"] },
  { path: "/proc/net/tcp6", host: "::1", addresses: ["00000000000000000000000001000000"] },
  // The unspecified address also takes connections to 127.0.0.1, unless the socket is for IPv6 only.
  { path: "/proc/net/tcp6", host: "::1", addresses: ["00000000000000000000000000000000"] }
] as const

const LISTEN = "0A"

/** Listening sockets that a connection to the port on the loopback interface could reach. */
export const at = (port: number): ReadonlyArray<ListeningSocket> => {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`
  return TABLES.flatMap(({ addresses, host, path }) => {
    const text = read(path)
    return text.split("\n").slice(1).flatMap((line): ReadonlyArray<ListeningSocket> => {
      const [, local = "", , state, , , , uid = "", , inode = ""] = line.trim().split(/\s+/u)
      const isHere = state === LISTEN && local.endsWith(suffix) && addresses.some((address) => local === address + suffix)
      return isHere ? [{ host, inode, uid: Number(uid) }] : []
    })
  })
}

const read = (path: string): string => {
  try {
    return readFileSync(path, "latin1")
  } catch (error) {
    return ifAbsent("")(error)
  }
}

/** Another user's process is not asked. */
const CLOSED: ReadonlyArray<unknown> = ["EACCES", "EPERM"]

const attempt = <A>(look: () => A, otherwise: A): A => {
  try {
    return look()
  } catch (error) {
    return CLOSED.includes(codeOf(error)) ? otherwise : ifEnded(otherwise)(error)
  }
}

/** Whether the process has the socket open. */
export const isOf = (pid: number, { inode }: ListeningSocket): boolean => {
  const folder = `/proc/${pid}/fd`
  return attempt(() => readdirSync(folder), []).some((name) => attempt(() => readlinkSync(`${folder}/${name}`), "") === `socket:[${inode}]`)
}
