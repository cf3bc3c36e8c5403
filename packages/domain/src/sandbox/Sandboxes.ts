/** What a client may do with sandboxes: create, read, list, command. Each call loads, decides and commits once. */
import { Context, DateTime, Effect, Layer, Option, Schedule, Schema } from "effect"
import { Ids } from "../Ids.ts"
import type { Principal } from "../access/Principal.ts"
import type { Decision } from "./Approval.ts"
import {
  type ApprovalNotFound,
  type Command,
  type CommandResult,
  decideApproval,
  interrupt,
  type SandboxNotRunning,
  sendMessage,
  terminate,
  type TurnActive
} from "./Command.ts"
import { CreateSandbox, toCreation } from "./CreateSandbox.ts"
import { fingerprint, type IdempotencyConflict, type IdempotencyKey } from "./Idempotency.ts"
import {
  type ApprovalsUnsupported,
  choose,
  type InvalidModel,
  type InvalidReasoningEffort,
  ModelCatalogue
} from "./ModelCatalogue.ts"
import type { Sandbox } from "./Sandbox.ts"
import { ID_ALPHABET, SandboxId } from "./SandboxId.ts"
import { type ListQuery, type SandboxNotFound, SandboxStore, type StoreUnavailable } from "./SandboxStore.ts"

export class Sandboxes extends Context.Service<Sandboxes, {
  /** Accepts a creation; booting goes on without the caller. `replayed`: an equal request came under this key before. */
  create(by: Principal, request: CreateSandbox, key: Option.Option<IdempotencyKey>): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    IdempotencyConflict | InvalidModel | InvalidReasoningEffort | ApprovalsUnsupported | StoreUnavailable
  >
  get(by: Principal, id: SandboxId): Effect.Effect<Sandbox, SandboxNotFound | StoreUnavailable>
  list(by: Principal, query: ListQuery): Effect.Effect<ReadonlyArray<Sandbox>, StoreUnavailable>
  terminate(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  interrupt(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  decideApproval(by: Principal, id: SandboxId, approvalId: string, decision: Decision): Effect.Effect<
    CommandResult,
    ApprovalNotFound | SandboxNotFound | StoreUnavailable
  >
  sendMessage(by: Principal, id: SandboxId, prompt: string): Effect.Effect<
    CommandResult,
    SandboxNotFound | SandboxNotRunning | TurnActive | StoreUnavailable
  >
}>()("@slipway/domain/Sandboxes") {
  static readonly layer = Layer.effect(
    Sandboxes,
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const ids = yield* Ids
      const catalogue = yield* ModelCatalogue
      const encodeRequest = Schema.encodeSync(CreateSandbox)

      const create = Effect.fn("Sandboxes.create")(
        function*(by: Principal, request: CreateSandbox, key: Option.Option<IdempotencyKey>) {
          const model = yield* Effect.fromResult(choose(catalogue, {
            model: request.model,
            reasoningEffort: request.reasoningEffort,
            toolApprovalMode: request.toolApprovalMode,
            offlineOnly: by.test
          }))
          const id = SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`)
          const at = yield* DateTime.now
          const keyed = Option.map(key, (key) => ({ key, fingerprint: fingerprint(ids, encodeRequest(request)) }))
          return yield* store.create(
            toCreation(request, { id, grantId: by.grantId, createdBy: by.userId, model, at }),
            Option.getOrNull(keyed)
          )
        },
        Effect.retry({ while: (error) => error._tag === "SandboxIdTaken", schedule: Schedule.recurs(5) }),
        Effect.catchTag("SandboxIdTaken", Effect.die)
      )

      const execute = Effect.fnUntraced(function*<E>(by: Principal, id: SandboxId, command: Command<E>) {
        return yield* store.command({ grantId: by.grantId, id }, command, yield* DateTime.now)
      })

      return Sandboxes.of({
        create,
        get: (by, id) => store.find({ grantId: by.grantId, id }),
        list: (by, query) => store.list(by.grantId, query),
        terminate: (by, id) => execute(by, id, terminate(ids)),
        interrupt: (by, id) => execute(by, id, interrupt(ids)),
        decideApproval: (by, id, approvalId, decision) => execute(by, id, decideApproval(ids, approvalId, decision)),
        sendMessage: (by, id, prompt) => execute(by, id, sendMessage(ids, prompt, by.userId))
      })
    })
  )
}
