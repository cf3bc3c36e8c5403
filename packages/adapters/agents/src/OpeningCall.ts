/** JSON-RPC requests while a session opens. */
import type { AgentError } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Effect } from "effect"
import type { Conversation } from "./Conversation.ts"
import * as JsonRpc from "./stdio/JsonRpc.ts"

export type OpeningCall = (method: string, params: object) => Effect.Effect<unknown, AgentError>

/** A refusal or the end of the agent's output fails the opening. Other frames are handled until the answer arrives. */
export const make =
  (rpc: JsonRpc.JsonRpc, { fail, gone }: Pick<Conversation<never>, "fail" | "gone">, handlers: JsonRpc.Handlers): OpeningCall =>
  (method, params) =>
    rpc.call(method, params, handlers).pipe(
      Effect.catchTags({
        OutputEnded: gone("open"),
        RpcRefusal: (refusal) => Effect.fail(fail("open", `${method} was refused: ${JsonRpc.describe(refusal)}`, false))
      })
    )
