/** The program of an operator who has the worked example make machines on this machine. */
import * as SystemCallFilters from "@slipway/runner/host/SystemCallFilters"
import { Effect } from "effect"
import { mkdirSync, readdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { processesOf } from "../../commands/SlipwayProcess.ts"

const root = path.resolve(import.meta.dirname, "../../../../..")

const kill = (pid: number) => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // It ended with another one.
  }
}

/** Ends the processes whose command lines have the text. */
export const end = (text: string) => Effect.map(processesOf(text), (found) => found.forEach((one) => kill(Number(one.split(" ")[0]))))

/** A folder with the filters of system calls, where the worker's own is not known yet. */
export const filtersIn = (folder: string): string => {
  const filters = path.join(folder, "filters")
  SystemCallFilters.write(filters)
  return filters
}

/**
 * Makes it in the folder, for machines of this kind. They end with the scope. `filters`: the folder with filters of system calls; a worker
 * writes them to `machines/filters` of its data.
 */
export const make = Effect.fnUntraced(function*(at: string, kind: "bubblewrap" | "gvisor", filters: string) {
  const machines = path.join(at, "m")
  mkdirSync(machines, { mode: 0o700 })
  const variables = {
    MACHINES_KIND: kind,
    MACHINES_FOLDER: machines,
    MACHINES_RUNNER: path.join(root, "packages/adapters/runner/src/program/Runner.main.ts"),
    MACHINES_SEES: [...new Set([root, path.dirname(process.execPath)])].join(":"),
    MACHINES_SECCOMP: path.join(filters, kind === "bubblewrap" ? "bubblewrap.bpf" : `${kind}.json`)
  }
  const program = path.join(at, "machines")
  const lines = Object.entries(variables).map(([name, value]) => `export ${name}='${value}'`)
  writeFileSync(
    program,
    `#!/bin/sh\n${lines.join("\n")}\nexec '${process.execPath}' '${path.join(root, "deploy/machines/local.mjs")}' "$@"\n`,
    { mode: 0o755 }
  )
  /** Ends what runs in all of them. The processes have no parent: after a failed test they would stay. */
  const lose = end(`${machines}/`)
  yield* Effect.addFinalizer(() => lose)
  return {
    program,
    machines,
    /** Sandboxes that have one. */
    left: () => readdirSync(machines).flatMap((installation) => readdirSync(path.join(machines, installation))),
    lose
  }
})
