/** Starts a box of bubblewrap: one process of a sandbox, with all it starts. */
import { Effect, Option, Schema } from "effect"
import { randomUUID } from "node:crypto"
import { rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Launch as BoxLaunch } from "../box/BoxKind.ts"
import { untilBoxReady } from "../box/BoxReady.ts"
import { KILL_WITHIN, type Launched, relayTo, startMarked } from "../box/LaunchedBoxes.ts"
import * as PathRelay from "../files/PathRelay.ts"
import type { SandboxFolder } from "../files/SandboxFolder.ts"
import { attempt } from "../host/HostAttempt.ts"
import * as Processes from "../kernel/Processes.ts"
import { textIn } from "../node/IsThere.ts"
import * as Arguments from "./Arguments.ts"
import type * as HostRequirements from "./HostRequirements.ts"
import * as Launch from "./Launch.ts"

/** Kernel limits that pass, in bubblewrap's words. */
const isPassing = (complaint: string) => /temporarily unavailable|Cannot allocate memory|Too many open files|No space left/u.test(complaint)

const Info = Schema.fromJsonString(Schema.Struct({ "child-pid": Schema.Int }))
const decodeInfo = Schema.decodeUnknownOption(Info)

/** The report of bubblewrap about a new box: its first process, `null` if that process has already ended. */
const saidIn = (infoFile: string) =>
  Effect.map(
    Effect.promise(() => textIn(infoFile, "")),
    (text) => {
      const info = decodeInfo(text)
      return Option.isNone(info) ? undefined : Processes.first(info.value["child-pid"]) ?? null
    }
  )

export const launchFolderOf = (folder: SandboxFolder): string => join(folder.path, "launch")

export type BubblewrapHost = Launched<HostRequirements.HostRequirements>

export const start = Effect.fnUntraced(
  function*(
    { entrances, requirements, strays }: BubblewrapHost,
    { command, environment, folder, limits, processors, sandboxId, user, workspace, ...launch }: BoxLaunch
  ) {
    const { filterFile, groups, service, tools } = requirements
    const id = randomUUID()
    const [argumentsFile, infoFile] = [join(launchFolderOf(folder), `${id}.arguments`), join(launchFolderOf(folder), `${id}.info`)]
    const relay = user === null ? PathRelay.none : yield* relayTo({ ...launch, folder, workspace })
    const sight = Arguments.bubblewrap({ ...launch, folder, limits, workspace, through: relay.through }, Launch.descriptors)
    const settings = ["--clearenv", ...Object.entries(environment).flatMap(([name, value]) => ["--setenv", name, value]), ...sight]
    yield* attempt("spawn", `${launchFolderOf(folder)} cannot be written to.`, () =>
      writeFile(
        argumentsFile,
        settings.map((setting) => `${setting}\0`).join(""),
        { mode: 0o600 }
      ))

    const [program = "", ...launchArguments] = Launch.commandLine({
      tools,
      user,
      limits,
      processors,
      relay,
      groupFiles: entrances.get(sandboxId) ?? [],
      isGrouped: entrances.has(sandboxId) && !("reason" in groups) && groups.limits.has("processes"),
      strays,
      filterFile,
      argumentsFile,
      infoFile,
      command
    })
    const forget = Effect.promise(() => Promise.all([rm(argumentsFile, { force: true }), rm(infoFile, { force: true })]))
    return yield* Effect.gen(function*() {
      const { process, release } = yield* startMarked(program, launchArguments, service, sandboxId, id)
      const first = yield* untilBoxReady(process, { look: saidIn(infoFile), program: "bubblewrap", isPassing }).pipe(
        Effect.onError(() => release)
      )
      const end = Effect.gen(function*() {
        // The first process takes all others of its namespace with it, and is gone when they are.
        const left = yield* Processes.killAll(() => first !== null && Processes.isRunning(first) ? [first.pid] : [], KILL_WITHIN)
        yield* release
        if (left.length === 0) yield* process.exited
        else yield* Effect.logError("processes survive SIGKILL", { sandboxId, pids: left })
      })
      return { process, end }
    }).pipe(Effect.ensuring(forget))
  }
)
