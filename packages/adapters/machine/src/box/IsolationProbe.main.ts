/**
 * Looks at a box from inside: the probe runs this file in one. Writes one JSON value.
 *
 *     node IsolationProbe.main.ts HIDDEN HOST PORT FOLDER…
 *
 * HIDDEN is a file of the host, HOST and PORT lead to a server on the host's loopback interface, the folders are tried to be written to.
 * Imports nothing: a box sees this file alone.
 */
import { spawnSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs"
import { connect } from "node:net"
import { availableParallelism, networkInterfaces, release } from "node:os"

const [, , hidden = "", host = "", port, ...folders] = process.argv
const STANDARD_OUTPUT = 1

const status = Object.fromEntries(readFileSync("/proc/self/status", "utf8").split("\n").map((line) => line.split(/:\s*/u, 2)))

const isWritable = (folder: string) => {
  const file = `${folder}/.slipway-probe`
  try {
    writeFileSync(file, "")
    rmSync(file)
    return true
  } catch {
    return false
  }
}

const unshared = spawnSync("unshare", ["--user", "true"], { env: { ...process.env, LC_ALL: "C" } })

const tell = (reached: boolean) => {
  writeSync(
    STANDARD_OUTPUT,
    JSON.stringify({
      uid: process.getuid?.(),
      seccomp: status["Seccomp"],
      // Not every kernel tells.
      noNewPrivileges: status["NoNewPrivs"] ?? null,
      kernel: release(),
      lists: spawnSync("ls", ["-ld", "/"]).status === 0,
      capabilities: [status["CapEff"], status["CapPrm"], status["CapBnd"], status["CapInh"], status["CapAmb"]].join(),
      interfaces: [
        ...new Set([...Object.keys(networkInterfaces()), ...readFileSync("/proc/net/dev", "utf8").split("\n").slice(2).map((line) =>
          line.split(":")[0]?.trim() ?? ""
        ).filter((name) => name !== "")])
      ],
      processes: readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).length,
      hidden: !existsSync(hidden),
      reached,
      writable: folders.filter(isWritable),
      nests: unshared.error === undefined ? unshared.status === 0 : null,
      // The filter says so; without it, the box's own namespace would say that there is no room for another.
      filtered: `${unshared.stderr}`.includes("Operation not permitted"),
      processors: availableParallelism(),
      nproc: Number.parseInt(`${spawnSync("nproc").stdout}`, 10) || null,
      environment: Object.keys(process.env)
    })
  )
  process.exit(0)
}
const socket = connect({ host, port: Number(port) })
socket.once("connect", () => tell(true))
socket.once("error", () => tell(false))
socket.setTimeout(2_000, () => tell(false))
