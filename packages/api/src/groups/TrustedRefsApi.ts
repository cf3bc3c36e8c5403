/** The refs whose setups have secrets, of a key's grant (docs/decisions/17). Not part of the public interface and its document. */
import { TrustedRef } from "@slipway/domain/environment/rules/SetupTrust"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { GrantNotFound, Misfitting, TooManyTrustedRefs, TrustedRefNotFound } from "../shared/Errors.ts"
import { Authenticated, JsonBody } from "../shared/Middleware.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

const Listed = { repo: RepoName, ref: TrustedRef }

const TrustedRefResource = Schema.Struct({ ...Listed, listedAt: Timestamp }).annotate({ identifier: "TrustedRef" })

/** Lists, adds and removes refs. Needs the scope `secrets`. */
export class TrustedRefsApi extends HttpApiGroup.make("trustedRefs", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listTrustedRefs", "/", {
      success: Schema.Struct({ data: Schema.Array(TrustedRefResource) }).annotate({ identifier: "TrustedRefList" })
    }).annotateMerge(OpenApi.annotations({
      summary: "List refs",
      description: "Branches and tags whose setups have secrets, beside the default branch of each repository: by repository and ref."
    })),
    HttpApiEndpoint.post("trustRef", "/", {
      payload: Schema.Struct(Listed).annotate({ identifier: "TrustRef" }),
      success: TrustedRefResource.pipe(HttpApiSchema.status(201)),
      error: [GrantNotFound, Misfitting, TooManyTrustedRefs]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "List a ref",
      description: "The short name of a branch or a tag, or all below a folder: `release/*`. A ref that is listed already stays as it is."
    })),
    HttpApiEndpoint.delete("distrustRef", "/", {
      query: Listed,
      success: HttpApiSchema.NoContent,
      error: TrustedRefNotFound
    }).annotateMerge(OpenApi.annotations({
      summary: "Remove a ref",
      description: "Setups of its commits run without secrets from now on."
    }))
  )
  .prefix("/api/internal/v1/trusted-refs")
  .middleware(Authenticated)
  .annotate(NeededScope, "secrets")
  .annotate(Area, "internal")
  .annotateMerge(
    OpenApi.annotations({ title: "Trusted refs", description: "Which branches' setups have secrets. Need the scope `secrets`." })
  )
{}
