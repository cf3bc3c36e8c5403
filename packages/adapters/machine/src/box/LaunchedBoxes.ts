/** Boxes that a program of the machine makes (`bwrap`, `runsc`): how they are started, and what a killed worker left of them. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import * as PathRelay from "../files/PathRelay.ts"
import type { ServiceFolder } from "../files/ServiceFolder.ts"
import { attempt, reason } from "../host/HostAttempt.ts"
import type * as Cgroups from "../kernel/Cgroups.ts"
import * as Processes from "../kernel/Processes.ts"
import { ofUser } from "../kernel/ProcessesOfUser.ts"
import * as NodeBoxProcess from "../node/NodeBoxProcess.ts"
import * as ProcessTable from "../node/ProcessTable.ts"
import type { Launch } from "./BoxKind.ts"
import * as Launcher from "./Launcher.ts"

/** `<service>:<sandbox id>:<box>`, in the environment of the program that makes a box. */
const MARK = "SANDBOX_MARK"

/** The time for killed processes to end. A sandbox must end within two seconds of the request. */
export const KILL_WITHIN = "2 seconds"

/** The state of a host of such boxes. */
export interface Launched<Requirements> {
  readonly requirements: Requirements
  readonly strays: ReturnType<typeof Launcher.strays>
  /** The files that a process writes its id into, by sandbox. */
  readonly entrances: Map<SandboxId, ReadonlyArray<string>>
}

export const launched = <Requirements>(requirements: Requirements): Launched<Requirements> => ({
  requirements,
  strays: Launcher.strays(),
  entrances: new Map()
})

/** Makes the ways to the box's folders. */
export const relayTo = ({ folder, readOnly, workspace }: Pick<Launch, "folder" | "readOnly" | "workspace">) =>
  Effect.try({
    try: () => PathRelay.to([folder.path, folder.writable, workspace, ...readOnly]),
    catch: (error) =>
      new HostError({ operation: "spawn", detail: `The way to the box's folders cannot be made (${reason(error)}).`, retryable: true })
  })

/** Starts the program that makes the box `id`. */
export const startMarked = (program: string, args: ReadonlyArray<string>, service: string, sandboxId: SandboxId, id: string) =>
  NodeBoxProcess.start(program, args, { cwd: "/", env: { PATH: Launcher.PATH, [MARK]: `${service}:${sandboxId}:${id}` } })

/** Kills the processes of the sandbox: those with its mark, and those of the users with the claim `name`. Neither way trusts the other. */
export const killLeft = Effect.fnUntraced(function*(
  { service, uids }: Pick<ServiceFolder, "service" | "uids">,
  operation: HostError["operation"],
  sandboxId: SandboxId,
  name: string
) {
  const marked = yield* ProcessTable.killAll({
    variable: MARK,
    matches: (mark) => mark.startsWith(`${service}:${sandboxId}:`),
    within: KILL_WITHIN
  })
  const claims = uids === null ? [] : yield* attempt(operation, "The sandbox's users are not known.", () => uids.list())
  const users = claims.filter((claim) => claim.name === name).map(({ uid }) => uid)
  const left = users.length === 0 ? [] : yield* Processes.killAll(() => users.flatMap(ofUser), KILL_WITHIN)
  if (marked.length + left.length === 0) return
  return yield* new HostError({ operation, detail: `Processes ${[...marked, ...left].join(", ")} survive SIGKILL.`, retryable: true })
})

/** The names of sandboxes that have a control group or a marked process. */
export const left = Effect.fnUntraced(function*(
  { groups, service }: { readonly groups: Cgroups.Groups | Cgroups.NoGroups; readonly service: string }
) {
  const grouped = "reason" in groups ? [] : yield* attempt("list", "The control groups cannot be read.", groups.list)
  const marked = [...yield* ProcessTable.marks(MARK)].flatMap((mark) => {
    const [ofService, sandboxId = ""] = mark.split(":")
    return ofService === service ? [sandboxId] : []
  })
  return [...grouped, ...marked]
})
