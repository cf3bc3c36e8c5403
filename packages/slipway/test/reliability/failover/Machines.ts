/** Machines with runners, made on this machine by the worked example. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs"
import path from "node:path"

const root = path.resolve(import.meta.dirname, "../../../../..")

export const kill = (pid: number) => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // It ended with another one.
  }
}

/** The program of an operator who has the worked example make machines on this one, for a worker with this data folder. */
export const machinesIn = (at: string, kind: string, dataDir: string) => {
  const machines = path.join(at, "m")
  mkdirSync(machines, { mode: 0o700 })
  const variables = {
    MACHINES_KIND: kind,
    MACHINES_FOLDER: machines,
    MACHINES_RUNNER: path.join(root, "packages/adapters/runner/src/program/Runner.main.ts"),
    MACHINES_SEES: [...new Set([root, path.dirname(process.execPath)])].join(":"),
    MACHINES_SECCOMP: path.join(dataDir, "machines/filters", kind === "bubblewrap" ? "bubblewrap.bpf" : `${kind}.json`)
  }
  const program = path.join(at, "machines")
  const lines = Object.entries(variables).map(([name, value]) => `export ${name}='${value}'`)
  writeFileSync(
    program,
    `#!/bin/sh\n${lines.join("\n")}\nexec '${process.execPath}' '${path.join(root, "deploy/machines/local.mjs")}' "$@"\n`,
    { mode: 0o755 }
  )
  /** Sandboxes that have one. */
  const left = () => readdirSync(machines).flatMap((installation) => readdirSync(path.join(machines, installation)))
  return { program, machines, left }
}
