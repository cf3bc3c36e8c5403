/** Starts a container of gVisor: one process of a sandbox, with all it starts. */
import { ifEnded } from "@slipway/domain/files/rules/SystemError"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { chmod, mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import type { Launch } from "../box/BoxKind.ts"
import { untilBoxReady } from "../box/BoxReady.ts"
import { KILL_WITHIN, type Launched, relayTo, startMarked } from "../box/LaunchedBoxes.ts"
import * as Launcher from "../box/Launcher.ts"
import { attempt } from "../host/HostAttempt.ts"
import * as Processes from "../kernel/Processes.ts"
import { textIn } from "../node/IsThere.ts"
import type * as Ownership from "../users/Ownership.ts"
import * as Bundle from "./Bundle.ts"
import type * as HostRequirements from "./HostRequirements.ts"

/** Kernel limits that pass, in the words of `runsc`. */
const isPassing = (complaint: string) =>
  /temporarily unavailable|annot allocate memory|too many open files|no space left|failed to create new OS thread/iu.test(complaint)

/**
 * Arguments: our process id, then the command. The script ends with its parent, which is this process or a child of it. If the parent ended
 * before the script could ask for that, the script has another parent by now and exits.
 */
const SCRIPT = `
worker=$1; shift
if [ "$PPID" != "$worker" ]; then
  while read -r name value && [ "$name" != PPid: ]; do :; done < "/proc/$PPID/status"
  [ "$value" = "$worker" ] || exit 125
fi
exec nice -n 5 "$@"
`

/** The name of the claim of the user id that gVisor's own processes of a sandbox have. A taken-over process reaches no other sandbox. */
export const kernelClaim = (sandboxId: string): string => `${sandboxId} gvisor`

/** Processes that `pid` started and did not outlive. */
const childrenOf = (pid: number): ReadonlyArray<number> => {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "latin1").split(" ").filter((child) => child !== "").map(Number)
    )
  } catch (error) {
    return ifEnded([])(error)
  }
}

/** The number of the container's kernel, when `runsc` has written it. */
const saidIn = (pidFile: string) =>
  Effect.map(
    Effect.promise(() => textIn(pidFile, "")),
    (text) => /^\d+$/u.test(text.trim()) ? Number(text) : undefined
  )

export type GvisorHost = Launched<HostRequirements.HostRequirements>

/** Where the containers of a sandbox are. */
export const bundlesOf = ({ bundles }: HostRequirements.HostRequirements, sandboxId: SandboxId): string => join(bundles, sandboxId)

export const kernelUserOf = (
  { uids }: HostRequirements.HostRequirements,
  operation: HostError["operation"],
  sandboxId: SandboxId
): Effect.Effect<Ownership.User, HostError> =>
  attempt(operation, "No user could be found for the sandbox's kernel.", async () => {
    const uid = await uids.claim(kernelClaim(sandboxId))
    return { uid, gid: uid }
  })

export const start = Effect.fnUntraced(function*({ entrances, requirements, strays }: GvisorHost, launch: Launch) {
  const { filter, platform, service, tools } = requirements
  const { processors, sandboxId, user } = launch
  if (user === null) return yield* Effect.die("boxes of gVisor have a user of their own")
  const id = randomBytes(6).toString("hex")
  const bundle = join(bundlesOf(requirements, sandboxId), id)
  const pidFile = join(bundle, "pid")
  const relay = yield* relayTo(launch)
  const [program = "", ...args] = [
    // With its worker, and before it is anything else.
    ...[tools.setpriv, "--pdeathsig", "KILL", "--no-new-privs"],
    ...Launcher.launched({
      groupFiles: entrances.get(sandboxId) ?? [],
      mounts: relay.mounts,
      rest: SCRIPT,
      strays,
      unshare: tools.unshare
    }),
    `${process.pid}`,
    ...(processors === null ? [] : [tools.taskset, "--cpu-list", processors]),
    ...[tools.runsc, "--root", join(bundle, "state"), `--platform=${platform}`, "--network=none", "--host-uds=open", "--overlay2=none"],
    // Its group is ours to make.
    ...["--ignore-cgroups", "--oci-seccomp", "run", "--bundle", bundle, "--pid-file", pidFile, id]
  ]
  const kernelUser = yield* kernelUserOf(requirements, "spawn", sandboxId)
  const forget = Effect.promise(() => rm(bundle, { recursive: true, force: true }))
  return yield* Effect.gen(function*() {
    yield* attempt("spawn", `${bundle} cannot be written to.`, async () => {
      await mkdir(bundle, { mode: 0o711 })
      await chmod(bundle, 0o711)
      await mkdir(join(bundle, "state"), { mode: 0o700 })
      await Bundle.write(bundle, { ...launch, user, kernelUser, filter, through: relay.through })
    })
    const { process, release } = yield* startMarked(program, args, service, sandboxId, id)
    const kernel = yield* untilBoxReady(process, { look: saidIn(pidFile), program: "runsc", isPassing }).pipe(Effect.onError(() => release))
    const parts = childrenOf(process.pid).flatMap((pid) => Processes.first(pid) ?? [])
    const end = Effect.gen(function*() {
      yield* release
      // The kernel takes all programs with it. Both end with `runsc` by themselves, and are not trusted to.
      const left = yield* Processes.killAll(() => parts.filter(Processes.isRunning).map(({ pid }) => pid), KILL_WITHIN)
      if (left.length === 0) yield* process.exited
      else yield* Effect.logError("processes survive SIGKILL", { sandboxId, pids: left })
      yield* forget
    })
    return { process: { ...process, pid: kernel }, end }
  }).pipe(Effect.onError(() => forget))
})
