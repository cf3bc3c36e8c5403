/** Whether the process lives, and whether it can serve. For machines; no key needed. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { MethodNotAllowed, Unavailable } from "../shared/Errors.ts"
import { Area } from "../shared/Routing.ts"

const Health = Schema.Struct({
  status: Schema.Literal("ok").annotateKey({ description: "Always `ok`; anything else is another status code." })
}).annotate({ identifier: "Health" })

const Readiness = Schema.Struct({
  ...Health.fields,
  problem: Schema.optionalKey(Schema.String).annotateKey({
    description: "What keeps the worker of this process from booting sandboxes although requests are answered: a sentence for people."
  })
}).annotate({ identifier: "Readiness" })

/** `/healthz` and `/readyz`. No key is needed. */
export class HealthApi extends HttpApiGroup.make("health", { topLevel: true })
  .add(
    HttpApiEndpoint.get("getHealth", "/healthz", { success: Health, error: MethodNotAllowed.schema })
      .annotateMerge(OpenApi.annotations({ summary: "Is the process alive?", description: "Looks at nothing but the process." })),
    HttpApiEndpoint.get("getReadiness", "/readyz", { success: Readiness, error: [MethodNotAllowed.schema, Unavailable.schema] })
      .annotateMerge(OpenApi.annotations({
        summary: "Can it serve requests?",
        description:
          "503 while the store cannot be reached or takes no writes (its disk is full), while the clock of the machine is off by more " +
          "than 30 seconds, and while the process is shutting down. The message says which. 200 with a `problem` while its " +
          "worker boots nothing."
      }))
  )
  .annotate(Area, "health")
  .annotateMerge(OpenApi.annotations({ title: "Health", description: "For load balancers and supervisors." }))
{}
