/** The models of the service and its providers of them. Not part of the public interface and its document. */
import { ModelId } from "@slipway/domain/models/schema/ModelCatalogue"
import { ProviderAddress, ProviderKey, ProviderModel, ProviderName } from "@slipway/domain/models/schema/ModelProvider"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { IncompleteProvider, Misfitting, ProviderNotFound } from "../shared/Errors.ts"
import { Authenticated, JsonBody } from "../shared/Middleware.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

const ModelResource = Schema.Struct({
  id: ModelId,
  default: Schema.Boolean.annotateKey({ description: "Whether a creation that names no model gets it." }),
  usable: Schema.Boolean,
  problems: Schema.Array(Schema.String).annotateKey({ description: "Every obstacle, with what removes it." })
}).annotate({ identifier: "Model" })

const settings = {
  baseUrl: Schema.NullOr(ProviderAddress).annotateKey({ description: "Address of the API; null: the provider's own." }),
  model: Schema.NullOr(ProviderModel).annotateKey({ description: "Name of the chosen model there; null: the provider's first." }),
  default: Schema.Boolean.annotateKey({ description: "Whether that model is the default of the service." })
}

/** The settings of a provider, without its key. */
export const ModelProviderResource = Schema.Struct({
  provider: ProviderName,
  hasKey: Schema.Boolean,
  ...settings,
  setAt: Timestamp
}).annotate({ identifier: "ModelProvider" })
/** The decoded settings. */
export type ModelProviderResource = typeof ModelProviderResource.Type

/** Lists models; lists, sets and removes providers. Needs the scope `models`. */
export class ModelsApi extends HttpApiGroup.make("models", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listModels", "/", {
      success: Schema.Struct({
        data: Schema.Array(ModelResource),
        isolation: Schema.NullOr(Schema.String).annotateKey({
          description: "The isolation that is in force; null: workers of other processes choose it."
        })
      }).annotate({ identifier: "ModelList" })
    }).annotateMerge(OpenApi.annotations({
      summary: "List models",
      description: "The models of the service as its workers report them, at most some seconds old."
    })),
    HttpApiEndpoint.get("listModelProviders", "/providers", {
      success: Schema.Struct({ data: Schema.Array(ModelProviderResource) }).annotate({ identifier: "ModelProviderList" })
    }).annotateMerge(OpenApi.annotations({
      summary: "List providers",
      description: "The providers of models that are set up, by name. Keys are never returned."
    })),
    HttpApiEndpoint.put("setModelProvider", "/providers/:provider", {
      params: { provider: ProviderName },
      payload: Schema.Struct({
        key: Schema.optionalKey(ProviderKey).annotateKey({ description: "Without it, a key stored for the same address is kept." }),
        ...settings
      }).annotate({ identifier: "SetModelProvider" }),
      success: ModelProviderResource,
      error: [Misfitting, IncompleteProvider]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Set up a provider",
      description: "Replaces the settings of the provider. Every process uses them within seconds, without a restart. A key in the " +
        "environment of a worker wins over a stored one."
    })),
    HttpApiEndpoint.delete("removeModelProvider", "/providers/:provider", {
      params: { provider: ProviderName },
      success: HttpApiSchema.NoContent,
      error: ProviderNotFound
    }).annotateMerge(OpenApi.annotations({
      summary: "Remove a provider",
      description: "Deletes the key and the settings."
    }))
  )
  .prefix("/api/internal/v1/models")
  .middleware(Authenticated)
  .annotate(NeededScope, "models")
  .annotate(Area, "internal")
  .annotateMerge(OpenApi.annotations({
    title: "Models",
    description: "The models of the whole service, and the providers' accounts. Need the scope `models`."
  }))
{}
