/** A machine with something to find on it, and a service on it whose boxes may lack a layer. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Box, HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer, type Scope, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from "node:fs"
import { createServer, type ListenOptions, type Server } from "node:net"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Probe from "../../src/box/Probe.ts"
import * as HostRequirements from "../../src/bubblewrap/HostRequirements.ts"
import type { Tools } from "../../src/bubblewrap/Launch.ts"
import * as SandboxHostBubblewrap from "../../src/bubblewrap/SandboxHostBubblewrap.ts"
import { isPublic } from "../../src/egress/Addresses.ts"
import * as Egress from "../../src/egress/Egress.ts"
import * as SandboxFolder from "../../src/files/SandboxFolder.ts"
import * as SizedFolders from "../../src/files/SizedFolders.ts"
import { workspaceIn, workspacesIn } from "../../src/files/TreesLayout.ts"
import { defaults, type Limits } from "../../src/host/Limits.ts"
import { freshId, isRoot, openFolder } from "../hosts/bubblewrap.fixture.ts"
import { running } from "../hosts/Machine.ts"

/** A text that no box may see: a box that has read it crossed its boundary. */
export const CANARY = `canary-${randomUUID()}`
/** Variable of the service's environment that has it. */
export const CANARY_VARIABLE = "SLIPWAY_TEST_CANARY"

/** Addresses of the loopback interface in place of a public one, and of a private one. */
const PUBLIC = "127.0.0.1"
const PRIVATE = "127.0.0.2"

/** How a layer that boxes of all kinds have is taken away. Production code has no switch for it: it is given other requirements. */
export interface SharedRemoval {
  readonly options?: Pick<SandboxHostBubblewrap.Options, "cgroupRoot" | "diskLookMillis" | "diskGlanceMillis">
  /** Why folders are to have no size of their own. */
  readonly lackingSizes?: string
  readonly egress?: Partial<Egress.Options>
  /** `home`: the folder of the machine that is the box's home. */
  readonly box?: (box: Box, home: string) => Box
}

/** The same for boxes of bubblewrap. */
export interface Removal extends SharedRemoval {
  readonly requirements?: (requirements: HostRequirements.HostRequirements) => HostRequirements.HostRequirements
  /** Perl that changes `$_`: the arguments of a program that boxes are made with, each ended by NUL. */
  readonly tools?: Partial<Readonly<Record<keyof Tools, string>>>
}

/** In the place of a tool: changes its arguments, those that bubblewrap would read from a descriptor as well, and becomes it. */
export const tampered = (tool: string, change: string) =>
  `#!/usr/bin/perl
if ($ARGV[0] eq "--args") {
  (undef, my $descriptor) = splice @ARGV, 0, 2;
  open my $options, "<&=", $descriptor or die;
  local $/ = "\\0";
  unshift @ARGV, map { chomp; $_ } <$options>;
}
$_ = join "", map { "$_\\0" } @ARGV;
${change};
chop;
exec "${tool}", split /\\0/, $_, -1;
`

/** The host of a service that keeps its things in `folder`. Shows boxes the folder `programs` in it. */
export const hostIn = (folder: string, removal: Removal, limits: Partial<Limits> = {}, workspaceOf = workspacesIn(join(folder, "trees"))) =>
  Effect.gen(function*() {
    const found = yield* HostRequirements.find({ directory: join(folder, "boxes"), ...removal.options })
    const toolsFolder = join(folder, "tools")
    mkdirSync(toolsFolder, { recursive: true, mode: 0o755 })
    const tools = { ...found.tools }
    for (const [name, change] of Object.entries(removal.tools ?? {})) {
      const tool = name as keyof Tools
      tools[tool] = join(toolsFolder, tool)
      writeFileSync(tools[tool], tampered(found.tools[tool], change), { mode: 0o755 })
    }
    const requirements = { ...found, tools }
    const folders = yield* SizedFolders.make({
      directory: join(folder, "trees"),
      limits: { ...defaults, ...limits },
      ...(removal.lackingSizes === undefined ? {} : { lacking: removal.lackingSizes })
    })
    return yield* SandboxHostBubblewrap.makeWith(removal.requirements?.(requirements) ?? requirements, {
      limits,
      folders,
      workspaceOf,
      // A limit may be set in the box, where its tool is wanted then.
      readOnly: [Probe.inside, join(folder, "programs"), toolsFolder],
      diskLookMillis: removal.options?.diskLookMillis ?? 100,
      ...(removal.options?.diskGlanceMillis === undefined ? {} : { diskGlanceMillis: removal.options.diskGlanceMillis })
    })
  })

/** A service with sandboxes. */
export interface Service {
  readonly host: SandboxHost["Service"]
  /** Where the machine has what a sandbox writes: its tree, its home, and its scratch folder if that is on a disk. */
  readonly placesOf: (sandboxId: SandboxId) => Effect.Effect<ReadonlyArray<string>, HostError>
  /** Removes the rest of a stopped sandbox. */
  readonly remove: (sandboxId: SandboxId) => Effect.Effect<void>
}

/** Boxes of one kind. */
export interface Kind<R extends SharedRemoval, S extends Service = Service> {
  readonly serviceIn: (folder: string, removal: R, limits: Partial<Limits>) => Effect.Effect<S, unknown, Egress.Egress | Scope.Scope>
  /** A program that starts a script in a box: node WORKER FOLDER WORKSPACE ID LAYER,… SCRIPT */
  readonly worker: string
  /** How many processes have the text in their command line, in boxes and outside. */
  readonly running: (text: string) => Effect.Effect<number>
}

/** Boxes on this machine, whose trees are in folders of it. */
export const inFolders = <R extends SharedRemoval>(
  hostIn: (folder: string, removal: R, limits: Partial<Limits>) => Effect.Effect<
    { readonly host: SandboxHost["Service"]; readonly folders: SizedFolders.SizedFolders | undefined },
    unknown,
    Egress.Egress | Scope.Scope
  >
): Kind<R>["serviceIn"] =>
  Effect.fnUntraced(function*(folder, removal, limits) {
    const { folders, host } = yield* hostIn(folder, removal, limits)
    if (folders === undefined) return yield* Effect.die("the host has no folders")
    const service: Service = {
      host,
      placesOf: Effect.fnUntraced(function*(sandboxId) {
        const own = join(folders.directory, sandboxId)
        const { home, scratch } = SandboxFolder.of(join(folder, "boxes"), sandboxId, (yield* folders.isSized(sandboxId)) ? own : null)
        return [workspaceIn(own), home, scratch]
      }),
      remove: folders.remove
    }
    return service
  })

const bubblewrap: Kind<Removal> = {
  serviceIn: inFolders(hostIn),
  worker: fileURLToPath(new URL("./worker.ts", import.meta.url)),
  running
}

/** Sends the canary to every client. */
const telling = (where: ListenOptions) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<Server>((resume) => {
        const server = createServer((socket) => socket.on("error", () => {}).end(CANARY))
        server.listen(where, () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => server.close())
    ),
    (server) => {
      const address = server.address()
      return address !== null && typeof address === "object" ? address.port : 0
    }
  )

/** A segment of System V memory that everybody may read. */
const sharedMemory = Effect.acquireRelease(
  Effect.sync(() => {
    const key = 1 + Math.floor(Math.random() * 2 ** 30)
    execFileSync("perl", ["-e", "my $id = shmget($ARGV[0], 64, 01644); defined $id && shmwrite($id, $ARGV[1], 0, 64) or die $!", `${key}`,
      CANARY])
    return key
  }),
  (key) => Effect.sync(() => execFileSync("perl", ["-e", "shmctl(shmget($ARGV[0], 0, 0), 0, 0)", `${key}`]))
)

const plant = Effect.gen(function*() {
  const [folder, outside] = [yield* openFolder, yield* openFolder]
  const programs = join(folder, "programs")
  mkdirSync(programs)
  for (
    const [path, content, mode] of [
      [join(outside, "canary"), CANARY, 0o644],
      [join(programs, "private"), CANARY, 0o600],
      [join(programs, "program"), "#!/bin/sh\n", 0o777]
    ] as const
  ) {
    writeFileSync(path, content)
    chmodSync(path, mode)
  }
  copyFileSync("/usr/bin/id", join(programs, "id"))
  if (isRoot) chmodSync(join(programs, "id"), 0o4755)
  const abstractSocket = `slipway-test-${randomUUID()}`
  yield* telling({ path: `\0${abstractSocket}` })
  return {
    folder,
    programs,
    /** A folder that no box knows of; everybody may read its file `canary`. */
    outside,
    port: yield* telling({ port: 0, host: "0.0.0.0" }),
    abstractSocket,
    sharedMemory: yield* sharedMemory
  }
})

type Planted = Effect.Success<typeof plant>

const egress = ({ port }: Planted, options: Partial<Egress.Options>): Egress.Options => ({
  allow: new Set([`listed.test:${port}`, `inner.test:${port}`, "metadata.test:80"]),
  lookup: async (name) => [name === "inner.test." ? PRIVATE : name === "metadata.test." ? "169.254.169.254" : PUBLIC],
  mayConnect: (address) => address === PUBLIC || isPublic(address),
  ...options
})

export interface World extends Planted {
  readonly host: SandboxHost["Service"]
  readonly kind: Pick<Kind<never, never>, "running" | "worker">
  /** Where the hostile program runs. */
  readonly box: Box
  /** Another sandbox of the same service. */
  readonly other: {
    readonly box: Box
    /** Files of the machine with the canary in them: in its tree, its home and its scratch folder. */
    readonly secrets: ReadonlyArray<string>
    /** The last argument of a process of its own, which has the canary in its arguments and in its environment. */
    readonly mark: string
  }
}

export interface Options {
  readonly limits?: Partial<Limits>
  /** Whether sandboxes may reach anything: the names `listed.test`, `inner.test` and `metadata.test`. */
  readonly isOpen?: boolean
}

export const make = (options: Options, removal: Removal) => makeOf(bubblewrap, options, removal)

export const makeOf = <R extends SharedRemoval, S extends Service>(
  kind: Kind<R, S>,
  { isOpen = false, limits = {} }: Options,
  removal: R
) =>
  Effect.gen(function*() {
    const planted = yield* plant
    const { folder } = planted
    const services = yield* Layer.build(Egress.layer(isOpen ? egress(planted, removal.egress ?? {}) : { allow: new Set() }))
    const service = yield* Effect.provide(kind.serviceIn(folder, removal, limits), services)
    const provision = Effect.fnUntraced(function*(sandboxId: SandboxId) {
      const box = yield* Effect.acquireRelease(
        service.host.provision({ sandboxId, fence: 1 }),
        () => Effect.andThen(Effect.orDie(service.host.stop(sandboxId)), service.remove(sandboxId))
      )
      const places = yield* service.placesOf(sandboxId)
      return { box: removal.box?.(box, places[1] ?? "") ?? box, places }
    })
    const [id, otherId] = [freshId(), freshId()]
    const other = yield* provision(otherId)
    const mark = `mark-${randomUUID()}`
    const busy = `
      for folder in /workspace "$HOME" "$TMPDIR"; do (umask 077; echo "$TOKEN" > "$folder/secret"); done
      exec perl -e '$| = 1; print "ready\\n"; sleep 1000 while 1' "$TOKEN" "$0"`
    const boxed = yield* other.box.spawn({ command: "sh", args: ["-c", busy, mark], env: { TOKEN: CANARY } })
    yield* Stream.runHead(boxed.stdout)
    const { box } = yield* provision(id)
    const world: World & { readonly service: S } = {
      ...planted,
      host: service.host,
      service,
      kind,
      box,
      other: { box: other.box, mark, secrets: other.places.map((place) => join(place, "secret")) }
    }
    return world
  })

export type Attempted = Effect.Effect<boolean, HostError, Scope.Scope>
