/** A service whose sandboxes are in machines of the worked example, which may lack a layer. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Limits } from "@slipway/machine/host/Limits"
import * as Gvisor from "@slipway/machine/testing/hosts/gvisor.fixture"
import * as Machine from "@slipway/machine/testing/hosts/Machine"
import { tamperedRunsc } from "@slipway/machine/testing/isolation/GvisorWorld"
import * as World from "@slipway/machine/testing/isolation/World"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as SandboxHostRunner from "../../src/host/SandboxHostRunner.ts"
import { Machines } from "../../src/machines/Machines.ts"
import * as MachinesByCommand from "../../src/machines/MachinesByCommand.ts"
import type { Identity } from "../../src/wire/Identity.ts"
import type { Address } from "../../src/wire/RunnerSettings.ts"
import * as Example from "../Machines.fixture.ts"

export interface Removal extends World.SharedRemoval {
  /** JavaScript that changes `order`, as machines are made by it. */
  readonly order?: string
  /** Perl that changes `$_`: the arguments of the program that makes them, each ended by NUL. */
  readonly bwrap?: string
  readonly docker?: string
  /** Perl; see `GvisorWorld`. */
  readonly runsc?: string
  /** Whether sandboxes write to the disk of this machine. */
  readonly isDiskless?: boolean
  /** Variables of the example. */
  readonly variables?: Readonly<Record<string, string>>
}

export interface Service extends World.Service {
  /** The folder of this machine that the example has a sandbox's machine in. */
  readonly machineOf: (sandboxId: SandboxId) => string
  /** The secret lines of the key of its runner. */
  readonly keyOf: (sandboxId: SandboxId) => string
  /** Where its runner listens. */
  readonly addressOf: (sandboxId: SandboxId) => Address
  /** The identity of its worker. */
  readonly workerOf: (sandboxId: SandboxId) => Identity
  /** Where the worker keeps what makes it the worker of its machines. */
  readonly known: string
}

/** The worker's note of a machine. */
interface Note {
  readonly address: Address
  readonly runner: Identity
  readonly worker: Identity
}

export type MachinesWorld = World.World & { readonly service: Service }

const variablesOf = ({ cpus, diskBytes, memoryBytes, memoryFilesBytes, processes }: Partial<Record<keyof Limits, number | undefined>>) =>
  Object.fromEntries(
    Object.entries({
      MACHINES_CPUS: cpus,
      MACHINES_DISK_BYTES: diskBytes,
      MACHINES_MEMORY_BYTES: memoryBytes,
      MACHINES_MEMORY_FILES_BYTES: memoryFilesBytes,
      MACHINES_PROCESSES: processes
    }).flatMap(([name, value]) => value === undefined ? [] : [[name, `${value}`]])
  )

const pathOf = (tool: string) => execFileSync("sh", ["-c", `command -v ${tool}`], { encoding: "utf8" }).trim()

/** The program of an operator whose machines lack the layer: another order reaches it, and another tool does it. */
const programIn = Effect.fnUntraced(function*(folder: string, kind: Example.Kind, removal: Removal, limits: Partial<Limits>) {
  const [programs, tools] = [join(folder, "programs"), join(folder, "tools")]
  for (const at of [programs, tools]) mkdirSync(at, { recursive: true })
  for (const tool of ["bwrap", "docker", "runsc"] as const) {
    const change = removal[tool]
    if (change === undefined) continue
    writeFileSync(join(tools, tool), (tool === "runsc" ? tamperedRunsc : World.tampered)(pathOf(tool), change), { mode: 0o755 })
  }
  const honest = yield* Example.program(folder, kind, {
    PATH: `${tools}:${process.env["PATH"]}`,
    MACHINES_SEES: [...Example.sees(kind), programs].join(":"),
    ...variablesOf(removal.isDiskless === true ? { ...limits, diskBytes: undefined } : limits),
    ...removal.variables
  })
  const read = "const order = JSON.parse(require(\"fs\").readFileSync(0, \"utf8\"))"
  const script = `${read}; if (order.settings) { ${removal.order} } console.log(JSON.stringify(order))`
  const changed = join(folder, "changed")
  writeFileSync(changed, `#!/bin/sh\n'${process.execPath}' -e '${script}' | '${honest}' "$@"\n`, { mode: 0o755 })
  return removal.order === undefined ? honest : changed
})

/** Secrets that no sandbox may read: of a machine's runner, and of the worker. */
const plant = (folder: string) => {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  writeFileSync(join(folder, "canary"), World.CANARY, { mode: 0o600 })
}

export const serviceIn = (kind: Example.Kind) => (folder: string, removal: Removal, limits: Partial<Limits> = {}) =>
  Effect.gen(function*() {
    const machines = MachinesByCommand.make({
      program: yield* programIn(folder, kind, removal, limits),
      installation: Example.INSTALLATION
    })
    yield* Effect.addFinalizer(() =>
      Effect.ignore(Effect.flatMap(machines.list, (left) => Effect.forEach(left, (sandboxId) => machines.remove(sandboxId))))
    )
    const known = join(folder, "known")
    plant(known)
    const { host } = yield* Effect.provideService(SandboxHostRunner.make({ directory: known }), Machines, machines)
    const machineOf = (sandboxId: SandboxId) => join(folder, "m", Example.INSTALLATION, sandboxId)
    const noteOf = (sandboxId: SandboxId): Note => JSON.parse(readFileSync(join(known, `${sandboxId}.json`), "utf8"))
    const service: Service = {
      host,
      placesOf: (sandboxId) =>
        Effect.sync(() => {
          const machine = machineOf(sandboxId)
          for (const own of ["state", "run"]) plant(join(machine, own))
          const files = existsSync(join(machine, "disk")) ? join(machine, "disk") : machine
          return [join(files, "workspace"), join(files, "homes", sandboxId)]
        }),
      remove: () => Effect.void,
      machineOf,
      keyOf: (sandboxId) => noteOf(sandboxId).runner.privateKey.split("\n")[1] ?? "",
      addressOf: (sandboxId) => noteOf(sandboxId).address,
      workerOf: (sandboxId) => noteOf(sandboxId).worker,
      known
    }
    return service
  })

export const kindOf = (kind: Example.Kind): World.Kind<Removal, Service> => ({
  serviceIn: serviceIn(kind),
  worker: fileURLToPath(new URL("./machines.worker.ts", import.meta.url)),
  running: kind === "gvisor" ? Gvisor.running : Machine.running
})
