/** Machines with runners for tests, as the worked example makes them on this machine. */
import * as Egress from "@slipway/adapters/egress/Egress"
import { Effect, Layer } from "effect"
import { mkdir, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { filterFor } from "../../../src/hosts/bubblewrap/SeccompFilter.ts"
import * as SandboxHostRunner from "../../../src/hosts/runner/SandboxHostRunner.ts"
import * as MachinesProgram from "../../../src/runner/machines/MachinesProgram.ts"
import { temporaryFolder } from "../Machine.ts"

const root = fileURLToPath(new URL("../../../../..", import.meta.url))
const example = join(root, "deploy/machines/local.mjs")
const runner = join(root, "packages/adapters/src/runner/inside/RunnerProgram.ts")

export const INSTALLATION = "test"

/** A program as an operator has one: a script that says of what the example makes machines. */
export const program = Effect.fnUntraced(function*(folder: string, kind: "bubblewrap" | "gvisor" | "docker", more: Readonly<Record<string, string>> = {}) {
  const seccomp = join(folder, "filter.bpf")
  const variables = {
    MACHINES_KIND: kind,
    MACHINES_FOLDER: join(folder, "m"),
    MACHINES_RUNNER: runner,
    MACHINES_SEES: [...new Set([root, dirname(process.execPath)])].join(":"),
    MACHINES_SECCOMP: seccomp,
    ...more
  }
  const file = join(folder, "machines")
  yield* Effect.promise(async () => {
    await mkdir(join(folder, "m"), { recursive: true, mode: 0o700 })
    await writeFile(seccomp, filterFor(process.arch) ?? "")
    const lines = Object.entries(variables).map(([name, value]) => `export ${name}='${value}'`)
    await writeFile(file, `#!/bin/sh\n${lines.join("\n")}\nexec '${process.execPath}' '${example}' "$@"\n`, { mode: 0o755 })
  })
  return file
})

/** Where a machine of the example has its trees, on this machine. */
export const workspaceIn = (folder: string, sandboxId: string) => join(folder, "m", INSTALLATION, sandboxId, "workspace")

export const machines = (file: string) => MachinesProgram.layer({ program: file, installation: INSTALLATION })

export const hostIn = (folder: string, options: Partial<SandboxHostRunner.Options> = {}) =>
  SandboxHostRunner.layer({ directory: join(folder, "known"), ...options })

export const layerIn = (
  folder: string,
  kind: "bubblewrap" | "gvisor" | "docker",
  allow: Egress.Options = { allow: new Set() }
) =>
  Layer.unwrap(Effect.map(program(folder, kind), (file) =>
    hostIn(folder).pipe(Layer.provideMerge(machines(file)), Layer.provideMerge(Egress.layer(allow)))))

export const layer = (kind: "bubblewrap" | "gvisor" | "docker", allow?: Egress.Options) =>
  Layer.unwrap(Effect.map(temporaryFolder, (folder) => layerIn(folder, kind, allow)))
