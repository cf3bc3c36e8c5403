/** Metrics for Prometheus. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authenticated } from "../shared/Middleware.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

/** The text format of Prometheus (exposition formats, 0.0.4). */
const Exposition = Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/plain; version=0.0.4; charset=utf-8" }))

/** `/metrics` in the text format of Prometheus. Needs the scope `metrics:read`. */
export class MetricsApi extends HttpApiGroup.make("metrics", { topLevel: true })
  .add(
    HttpApiEndpoint.get("getMetrics", "/metrics", { success: Exposition }).annotateMerge(OpenApi.annotations({
      summary: "Scrape metrics",
      description: "Numbers of this process, and how many sandboxes are live, in the text format of Prometheus. Needs the scope " +
        "`metrics:read`, whatever the grant. Labels have fixed values: they name no customer, sandbox, repository or key."
    }))
  )
  .middleware(Authenticated)
  .annotate(NeededScope, "metrics:read")
  .annotate(Area, "metrics")
  .annotateMerge(OpenApi.annotations({ title: "Metrics", description: "For Prometheus." }))
{}
