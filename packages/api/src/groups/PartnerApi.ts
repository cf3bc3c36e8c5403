/** The partner feed of a grant (docs/interface.md 4.12; docs/decisions/11.3). */
import { PartnerEvent } from "@slipway/domain/partner/schema/PartnerEvent"
import { Counter } from "@slipway/domain/text/Text"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { InvalidCursor } from "../shared/Errors.ts"
import { Authenticated } from "../shared/Middleware.ts"
import { Cursor, Limit } from "../shared/Parameters.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

/** A page of the partner feed, oldest event first. */
export const PartnerPage = Schema.Struct({
  data: Schema.Array(PartnerEvent).annotateKey({ description: "In ascending `sequence`." }),
  nextCursor: Counter.annotateKey({ description: "The `sequence` of the last event, or `after` when there was none." })
}).annotate({ identifier: "PartnerEventPage" })

/** The partner feed of the grant. */
export class PartnerApi extends HttpApiGroup.make("partner", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listPartnerEvents", "/", {
      query: { after: Schema.optionalKey(Cursor), limit: Schema.optionalKey(Limit) },
      success: PartnerPage,
      error: InvalidCursor.schema
    }).annotateMerge(OpenApi.annotations({
      summary: "List partner events",
      description: "Credit claims and what followed from them, in ascending `sequence`, which starts at 1 and has no gaps. Save " +
        "`nextCursor` once every event of the page is processed and pass it as the next `after`; an empty page gives `after` " +
        "back. Deduplicate by `id`."
    }))
  )
  .prefix("/api/public/v1/events")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "feed")
  .annotateMerge(OpenApi.annotations({ title: "Partner events", description: "The ordered feed of a grant." }))
{}
