/** The checkpoints of a sandbox (docs/decisions/16). */
import { CheckpointRepo } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { Counter } from "@slipway/domain/text/Text"
import { timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { InvalidCursor, SandboxNotFound } from "../shared/Errors.ts"
import { Authenticated } from "../shared/Middleware.ts"
import { Cursor, inSandbox, Limit } from "../shared/Parameters.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

/** A checkpoint that is kept. */
export const CheckpointResource = Schema.Struct({
  checkpoint: Counter.annotateKey({ description: "Its number: counts from 1 within the sandbox." }),
  turnId: Schema.NullOr(Schema.String).annotateKey({ description: "The newest turn that had ended; `null`: there was none." }),
  createdAt: timestamp("When it was recorded."),
  bytes: Counter.annotateKey({ description: "Stored bytes." }),
  repos: Schema.Array(CheckpointRepo).annotateKey({ description: "The tree of each repository." })
}).annotate({ identifier: "Checkpoint" })

/** A page of a sandbox's checkpoints. */
export const CheckpointPage = Schema.Struct({
  data: Schema.Array(CheckpointResource).annotateKey({ description: "Oldest first." }),
  nextCursor: Schema.NullOr(Schema.String).annotateKey({ description: "The `after` of the next page; `null` on the last page." })
}).annotate({ identifier: "CheckpointPage" })

/** Lists checkpoints. Restores and forks are commands of {@link SandboxesApi}. */
export class CheckpointsApi extends HttpApiGroup.make("checkpoints", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listCheckpoints", "/", {
      params: inSandbox,
      query: { after: Schema.optionalKey(Cursor), limit: Schema.optionalKey(Limit) },
      success: CheckpointPage,
      error: [SandboxNotFound, InvalidCursor.schema]
    }).annotateMerge(OpenApi.annotations({
      summary: "List checkpoints",
      description: "What is kept of a sandbox so that it outlives its machine, oldest first."
    }))
  )
  .prefix("/api/public/v1/sandboxes/:sandboxId/checkpoints")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "checkpoints")
  .annotateMerge(OpenApi.annotations({ title: "Checkpoints", description: "What a sandbox goes on from when its machine is gone." }))
{}
