/** Machines with runners for tests, as the worked example makes them on this machine. */
import * as Docker from "@slipway/docker/testing/docker.fixture"
import * as Egress from "@slipway/machine/egress/Egress"
import * as Bubblewrap from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import * as Gvisor from "@slipway/machine/testing/hosts/gvisor.fixture"
import * as Machine from "@slipway/machine/testing/hosts/Machine"
import type * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Context, Effect, Layer, type Scope } from "effect"
import { mkdir, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import * as SandboxHostRunner from "../src/host/SandboxHostRunner.ts"
import * as SystemCallFilters from "../src/host/SystemCallFilters.ts"
import { Machines } from "../src/machines/Machines.ts"
import * as MachinesByCommand from "../src/machines/MachinesByCommand.ts"
import * as Cable from "./Cable.ts"
import * as TroubledCable from "./TroubledCable.ts"

const root = fileURLToPath(new URL("../../../..", import.meta.url))
const example = join(root, "deploy/machines/local.mjs")
export const runner = join(root, "packages/adapters/runner/src/program/Runner.main.ts")

export const INSTALLATION = "test"

/** The parts of this machine that machines see: the runner, Node; and the system's programs, where an image has none. */
export const sees = (kind: Kind): ReadonlyArray<string> => [
  ...new Set([root, dirname(process.execPath), ...kind === "docker" ? ["/usr", "/etc/alternatives"] : []])
]

/** A program as an operator has one: a script that says of what the example makes machines. */
export const program = Effect.fnUntraced(
  function*(folder: string, kind: Kind, more: Readonly<Record<string, string>> = {}) {
    const filters = join(folder, "filters")
    const variables = {
      MACHINES_KIND: kind,
      MACHINES_FOLDER: join(folder, "m"),
      MACHINES_RUNNER: runner,
      MACHINES_SEES: sees(kind).join(":"),
      MACHINES_SECCOMP: join(filters, kind === "bubblewrap" ? "bubblewrap.bpf" : `${kind}.json`),
      ...kind === "docker" ? { MACHINES_IMAGE: Docker.IMAGE, DOCKER_HOST: `unix://${Docker.socket}` } : {},
      ...more
    }
    const file = join(folder, "machines")
    yield* Effect.promise(async () => {
      await mkdir(join(folder, "m"), { recursive: true, mode: 0o700 })
      SystemCallFilters.write(filters)
      const lines = Object.entries(variables).map(([name, value]) => `export ${name}='${value}'`)
      await writeFile(file, `#!/bin/sh\n${lines.join("\n")}\nexec '${process.execPath}' '${example}' "$@"\n`, { mode: 0o755 })
    })
    return file
  }
)

/** The same program, of which `change`, a program in JavaScript, has changed each order for a machine. */
export const changed = Effect.fnUntraced(function*(folder: string, honest: string, change: string) {
  const file = join(folder, "changed")
  const script =
    `const order = JSON.parse(require("fs").readFileSync(0, "utf8")); if (order.settings) { ${change} } console.log(JSON.stringify(order))`
  yield* Effect.promise(() => writeFile(file, `#!/bin/sh\n'${process.execPath}' -e '${script}' | '${honest}' "$@"\n`, { mode: 0o755 }))
  return file
})

/** Where a machine of the example has its trees, on this machine. */
export const workspaceIn = (folder: string, sandboxId: string) => join(folder, "m", INSTALLATION, sandboxId, "workspace")

export const hostIn = (folder: string, options: Partial<SandboxHostRunner.Options> = {}) =>
  SandboxHostRunner.layer({ directory: join(folder, "known"), ...options })

export type Kind = "bubblewrap" | "gvisor" | "docker"

const absences: Readonly<Record<Kind, () => string | undefined>> = {
  bubblewrap: () => Bubblewrap.absent ?? (Bubblewrap.isRoot ? undefined : "needs root for machines of bubblewrap"),
  gvisor: () => Gvisor.absent,
  docker: () => Docker.absent
}

/** Why there are no such machines here; `undefined`: there are. */
export const absent = (kind: Kind): string | undefined => absences[kind]()

/** Where the example keeps machines. */
class Folder extends Context.Service<Folder, string>()("test/MachinesFolder") {}

export const fixture = (kind: Kind): SandboxHostContract.Fixture<Folder> => ({
  hasTreesInBox: true,
  workspace: (sandboxId) => Folder.useSync((folder) => workspaceIn(folder, sandboxId)),
  running: kind === "gvisor" ? Gvisor.running : Machine.running
})

interface Changes {
  /** Changes the machines' addresses, for example. */
  readonly change?: ((machines: Machines["Service"]) => Machines["Service"]) | undefined
  /** Variables of the example. */
  readonly more?: Readonly<Record<string, string>> | undefined
  /** Changes orders; see {@link changed}. */
  readonly order?: string | undefined
  readonly timing?: SandboxHostRunner.Options["timing"]
}

export const layerIn = (folder: string, kind: Kind, { change = (machines) => machines, more, order, timing }: Changes = {}) =>
  Layer.unwrap(Effect.gen(function*() {
    const honest = yield* program(folder, kind, more)
    const file = order === undefined ? honest : yield* changed(folder, honest, order)
    const machines = MachinesByCommand.make({ program: file, installation: INSTALLATION })
    // Removes the rest of a broken rule.
    yield* Effect.addFinalizer(() =>
      Effect.ignore(Effect.flatMap(machines.list, (left) => Effect.forEach(left, (sandboxId) => machines.remove(sandboxId))))
    )
    return hostIn(folder, timing === undefined ? {} : { timing }).pipe(
      Layer.provideMerge(Layer.succeed(Machines, change(machines))),
      Layer.provideMerge(Egress.layer({ allow: new Set() })),
      Layer.provideMerge(Layer.succeed(Folder, folder))
    )
  }))

export const layer = (kind: Kind, change?: (machines: Machines["Service"]) => Machines["Service"]) =>
  Layer.unwrap(Effect.map(Machine.temporaryFolder, (folder) => layerIn(folder, kind, { change })))

/** A network namespace, and what is dialled there. */
interface Network {
  readonly name: string
  readonly address: string
}

/** Settings that tell the example of them. */
export const networks = (all: ReadonlyArray<Network>) => ({
  MACHINES_NETWORKS: all.map(({ address, name }) => `${name}:${address}`).join(",")
})

/** Machines in other network namespaces, each of which is dialled over a cable of its own. */
const over = (cableOf: (number: number) => Effect.Effect<Network, never, Scope.Scope>) =>
  Layer.unwrap(Effect.gen(function*() {
    const folder = yield* Machine.temporaryFolder
    // As many as a rule has at once, and those that the rule before has not let go of yet.
    const cables = yield* Effect.forEach(Array.from({ length: 10 }, (_, i) => i + 1), cableOf)
    return layerIn(folder, "bubblewrap", { more: networks(cables) })
  }))

export const overCable = over(Cable.cableOf)

export const overTroubledCable = over((number) => TroubledCable.troubledCable(TroubledCable.BAD, number))
