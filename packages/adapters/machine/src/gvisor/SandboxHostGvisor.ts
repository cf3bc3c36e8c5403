/**
 * `SandboxHost` on gVisor, for machines where programs shall not reach the kernel at all: each process of a sandbox, with all it starts,
 * runs on a kernel of its own, a program without rights that answers its system calls, under the same rules as a box of bubblewrap.
 * See `SECURITY.md` for what that stops and what not.
 *
 *     <directory>/<sandbox id>/…                   see `box/SandboxFolder`
 *     /run/slipway/gvisor/<service>/<sandbox id>/<container>/…   what one is made of (`Bundle`), and what `runsc` notes of it
 */
import { ifEnded } from "@slipway/domain/files/rules/SystemError"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { chmod, mkdir, rm, rmdir } from "node:fs/promises"
import { join } from "node:path"
import * as IsolatedHost from "../box/IsolatedHost.ts"
import * as Launcher from "../box/Launcher.ts"
import { untilMade } from "../box/UntilMade.ts"
import * as Relay from "../files/Relay.ts"
import { attempt, reason } from "../host/HostAttempt.ts"
import * as ImageName from "../host/ImageName.ts"
import { defaults } from "../host/Limits.ts"
import * as Processes from "../kernel/Processes.ts"
import { ofUser } from "../kernel/ProcessesOfUser.ts"
import { namesIn, textIn } from "../node/IsThere.ts"
import * as NodeBoxProcess from "../node/NodeBoxProcess.ts"
import * as ProcessTable from "../node/ProcessTable.ts"
import type * as Ownership from "../users/Ownership.ts"
import * as Bundle from "./Bundle.ts"
import * as Means from "./Means.ts"

export interface Options extends Means.Options, IsolatedHost.Options {}

/** `<service>:<sandbox id>:<container>`, in the environment of `runsc` itself: finds what a killed worker left. */
const MARK = "SANDBOX_MARK"

/** Of killed processes. A sandbox is to be over two seconds after it was told so. */
const KILL_WITHIN = "2 seconds"

/**
 * Threads of the machine that gVisor takes for one process of the sandbox: seven, with `ptrace` (2026-11). It ends the whole container
 * where it cannot have one, so the group has room for all that RLIMIT_NPROC lets in.
 */
const THREADS_EACH = 8

/** And for itself: some 50 for a container, for ten of them. */
const OWN_THREADS = 512

/** Kernel limits that pass, in the words of `runsc`. */
const isPassing = (complaint: string) =>
  /temporarily unavailable|annot allocate memory|too many open files|no space left|failed to create new OS thread/iu.test(complaint)

/**
 * Arguments: our number, then what it becomes. It ends with whoever started it, which is us or a process of ours: unless that had ended
 * before it could ask for it, when it is somebody else's by now.
 */
const SCRIPT = `
worker=$1; shift
if [ "$PPID" != "$worker" ]; then
  while read -r name value && [ "$name" != PPid: ]; do :; done < "/proc/$PPID/status"
  [ "$value" = "$worker" ] || exit 125
fi
exec nice -n 5 "$@"
`

/** Names the claim of the number that gVisor's own processes of a sandbox have. One that is taken over reaches no other sandbox. */
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

/** The host without its probe, which looks at it. */
export const make = (options: Options) => Effect.flatMap(Means.find(options), (means) => makeWith(means, options))

/** The same with means that were found before. */
export const makeWith = Effect.fnUntraced(function*(means: Means.Means, options: IsolatedHost.Options) {
  const { bundles, filter, groups, platform, service, tools, uids } = means
  yield* Effect.addFinalizer(() =>
    Effect.promise(async () => {
      // Unless some of its sandboxes are left.
      await rmdir(bundles).catch(() => {})
      if (!("reason" in groups)) await groups.close()
    })
  )
  const strays = Launcher.strays()
  /** What a process writes its id into, by sandbox. */
  const entrances = new Map<SandboxId, ReadonlyArray<string>>()
  const bundlesOf = (sandboxId: SandboxId) => join(bundles, sandboxId)

  const kernelUserOf = (operation: HostError["operation"], sandboxId: SandboxId): Effect.Effect<Ownership.User, HostError> =>
    attempt(operation, "No user could be found for the sandbox's kernel.", async () => {
      const uid = await uids.claim(kernelClaim(sandboxId))
      return { uid, gid: uid }
    })

  const start: IsolatedHost.Kind["start"] = Effect.fnUntraced(function*(launch) {
    const { folder, processors, sandboxId, user, workspace } = launch
    if (user === null) return yield* Effect.die("boxes of gVisor have a user of their own")
    const id = randomBytes(6).toString("hex")
    const bundle = join(bundlesOf(sandboxId), id)
    const pidFile = join(bundle, "pid")
    const relay = yield* Effect.try({
      try: () => Relay.to([folder.path, folder.writable, workspace, ...launch.readOnly]),
      catch: (error) =>
        new HostError({ operation: "spawn", detail: `The way to the box's folders cannot be made (${reason(error)}).`, retryable: true })
    })
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
    const kernelUser = yield* kernelUserOf("spawn", sandboxId)
    const forget = Effect.promise(() => rm(bundle, { recursive: true, force: true }))
    return yield* Effect.gen(function*() {
      yield* attempt("spawn", `${bundle} cannot be written to.`, async () => {
        await mkdir(bundle, { mode: 0o711 })
        await chmod(bundle, 0o711)
        await mkdir(join(bundle, "state"), { mode: 0o700 })
        await Bundle.write(bundle, { ...launch, user, kernelUser, filter, through: relay.through })
      })
      const { process, release } = yield* NodeBoxProcess.start(program, args, {
        cwd: "/",
        env: { PATH: Launcher.PATH, [MARK]: `${service}:${sandboxId}:${id}` }
      })
      const kernel = yield* untilMade(process, { look: saidIn(pidFile), program: "runsc", isPassing }).pipe(Effect.onError(() => release))
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

  const kind: IsolatedHost.Kind = {
    isolation: "gvisor",
    // Of the machine alone, and on another kernel: what is built there may find other things.
    choose: (image) => Effect.map(ImageName.ofMachine("gvisor"), (id) => ({ id, image: null, isRefused: image !== null })),
    path: () => "/usr/local/bin:/usr/bin:/bin",
    showsMounts: false,
    // gVisor opens them for the sandbox's programs.
    holder: (sandboxId) => kernelUserOf("provision", sandboxId),
    insideUser: () => ({ uid: Bundle.USER, gid: Bundle.USER }),
    prepare: Effect.fnUntraced(function*(operation, sandboxId, _folder, limits) {
      yield* attempt(operation, `${bundlesOf(sandboxId)} cannot be made.`, async () => {
        // What is left there is of a worker that was killed.
        await rm(bundlesOf(sandboxId), { recursive: true, force: true })
        await mkdir(bundlesOf(sandboxId), { recursive: true, mode: 0o711 })
        await chmod(bundlesOf(sandboxId), 0o711)
      })
      if ("reason" in groups) return
      entrances.set(
        sandboxId,
        yield* attempt(
          operation,
          "The sandbox's control group cannot be made.",
          () => groups.create(sandboxId, { ...limits, processes: OWN_THREADS + THREADS_EACH * limits.processes })
        )
      )
    }),
    start,
    ..."reason" in groups ? {} : { limitsMet: (sandboxId) => Effect.promise(() => groups.met(sandboxId)) },
    end: Effect.fnUntraced(function*(operation, sandboxId) {
      // Two ways, neither of which trusts the other: the mark of what a worker started, and the user.
      const marked = yield* ProcessTable.killAll({
        variable: MARK,
        matches: (mark) => mark.startsWith(`${service}:${sandboxId}:`),
        within: KILL_WITHIN
      })
      const claims = yield* attempt(operation, "The sandbox's users are not known.", () => uids.list())
      const users = claims.filter(({ name }) => name === kernelClaim(sandboxId)).map(({ uid }) => uid)
      const left = users.length === 0 ? [] : yield* Processes.killAll(() => users.flatMap(ofUser), KILL_WITHIN)
      if (marked.length + left.length === 0) return
      return yield* new HostError({ operation, detail: `Processes ${[...marked, ...left].join(", ")} survive SIGKILL.`, retryable: true })
    }),
    discard: (operation, sandboxId) =>
      attempt(operation, "What a box of the sandbox was made of cannot be removed.", async () => {
        if (!("reason" in groups)) {
          await groups.kill(sandboxId)
          await groups.remove(sandboxId)
          entrances.delete(sandboxId)
        }
        await rm(bundlesOf(sandboxId), { recursive: true, force: true })
        await uids.release(kernelClaim(sandboxId))
      }),
    left: Effect.gen(function*() {
      const grouped = "reason" in groups ? [] : yield* attempt("list", "The control groups cannot be read.", groups.list)
      const bundled = yield* attempt("list", `${bundles} cannot be read.`, () => namesIn(bundles))
      const marked = [...yield* ProcessTable.marks(MARK)].flatMap((mark) => {
        const [ofService, sandboxId = ""] = mark.split(":")
        return ofService === service ? [sandboxId] : []
      })
      return [...grouped, ...bundled, ...marked]
    })
  }
  return {
    means,
    limits: { ...defaults, ...options.limits },
    folders: options.folders,
    workspaceOf: options.workspaceOf,
    host: yield* IsolatedHost.make(means, kind, options)
  }
})
