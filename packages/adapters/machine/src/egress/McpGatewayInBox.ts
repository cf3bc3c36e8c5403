/**
 * The gateway of MCP servers as isolated agents reach it: at the port in their box, as `ModelGatewayInBox` has it for their model.
 */
import { McpGateway } from "@slipway/domain/mcp/ports/McpGateway"
import { Effect, Layer } from "effect"
import { BASE_URL, Egress } from "./Egress.ts"

/** Stands in front of the gateway that it is given. */
export const layer: Layer.Layer<McpGateway, never, McpGateway | Egress> = Layer.effect(
  McpGateway,
  Effect.gen(function*() {
    const gateway = yield* McpGateway
    const egress = yield* Egress
    return McpGateway.of({
      open: Effect.fn("McpGatewayInBox.open")(function*(options) {
        const session = yield* gateway.open(options)
        const { origin, pathname } = new URL(session.access.baseUrl)
        yield* egress.route(options.sandboxId, new URL(origin), `${pathname}/`)
        return { ...session, access: { ...session.access, baseUrl: `${BASE_URL}${pathname}` } }
      })
    })
  })
)
