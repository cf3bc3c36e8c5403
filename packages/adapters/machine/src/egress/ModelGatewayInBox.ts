/**
 * The model gateway as isolated agents reach it: they get the address of the port in their box, and what they send there
 * goes through their own socket to where the gateway listens, as long as the session lasts.
 */
import { ModelGateway } from "@slipway/domain/models/ports/ModelGateway"
import { Effect, Layer } from "effect"
import { BASE_URL, Egress } from "./Egress.ts"

/** Stands in front of the gateway that it is given. */
export const layer: Layer.Layer<ModelGateway, never, ModelGateway | Egress> = Layer.effect(
  ModelGateway,
  Effect.gen(function*() {
    const gateway = yield* ModelGateway
    const egress = yield* Egress
    return ModelGateway.of({
      ...gateway,
      open: Effect.fn("ModelGatewayInBox.open")(function*(options) {
        const session = yield* gateway.open(options)
        yield* egress.route(options.sandboxId, new URL(session.access.baseUrl))
        return { ...session, access: { ...session.access, baseUrl: BASE_URL } }
      })
    })
  })
)
