/**
 * Facts from the operator's own systems (docs/decisions/11.1), the webhooks, trusted refs, settings of repositories, MCP servers and
 * automations of a grant, the models, deleting and archiving sandboxes, and comments and checks of pull requests. Not part of the
 * public interface and its document. Facts need the scope `partner:ingest`, in any grant.
 */
import { Claimant, ClaimTerms, Invoice, Project } from "@slipway/domain/partner/schema/Attribution"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import { Schema, Struct } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { AuditApi } from "./groups/AuditApi.ts"
import { AutomationsApi } from "./groups/AutomationsApi.ts"
import { KeepingApi } from "./groups/KeepingApi.ts"
import { McpServersApi } from "./groups/McpServersApi.ts"
import { ModelsApi } from "./groups/ModelsApi.ts"
import { RepositorySettingsApi } from "./groups/RepositorySettingsApi.ts"
import { ReviewsApi } from "./groups/ReviewsApi.ts"
import { TrustedRefsApi } from "./groups/TrustedRefsApi.ts"
import { WebhooksApi } from "./groups/WebhooksApi.ts"
import { tidy } from "./openapi/OpenApiDocument.ts"
import { ClaimNotFound, FactConflict, GrantNotFound } from "./shared/Errors.ts"
import { Authenticated, JsonBody } from "./shared/Middleware.ts"
import { Area, NeededScope } from "./shared/Routing.ts"

/** An offer of credits, and its claim. Fields are `null` until it is claimed. */
export const ClaimResource = Schema.Struct({
  ...ClaimTerms.fields,
  status: Schema.Literals(["pending", "claimed"]),
  createdAt: Timestamp,
  claimedAt: Schema.NullOr(Timestamp),
  recipientId: Schema.NullOr(Claimant.fields.recipientId),
  organizationId: Schema.NullOr(Claimant.fields.organizationId)
}).annotate({ identifier: "Claim" })
/** The decoded claim. */
export type ClaimResource = typeof ClaimResource.Type

const ProjectResource = Schema.Struct(Project.fields).annotate({ identifier: "Project" })
const InvoiceResource = Schema.Struct(Invoice.fields).annotate({ identifier: "Invoice" })

/** 201 for a new fact, 200 for a known one. */
const told = <S extends Schema.Top>(resource: S) => [resource.pipe(HttpApiSchema.status(201)), resource] as const

class FactsApi extends HttpApiGroup.make("facts", { topLevel: true })
  .add(
    HttpApiEndpoint.put("createClaim", "/claims/:claimId", {
      params: { claimId: ClaimTerms.fields.claimId },
      payload: ClaimTerms.mapFields(Struct.omit(["claimId"])).annotate({ identifier: "CreateClaim" }),
      success: told(ClaimResource),
      error: [GrantNotFound, FactConflict]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Create a claim",
      description: "Reserves an offer of credits under its id, until it is claimed. Its grant is told."
    })),
    HttpApiEndpoint.put("claimCredits", "/claims/:claimId/claimed", {
      params: { claimId: ClaimTerms.fields.claimId },
      payload: Schema.Struct(Claimant.fields).annotate({ identifier: "Claimant" }),
      success: told(ClaimResource),
      error: [ClaimNotFound, FactConflict]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Claim credits",
      description: "Adds the offered credits to the organization, once. Everything later counts for the first claim of a recipient " +
        "in an organization, and for the first claim of an organization."
    })),
    HttpApiEndpoint.put("connectProject", "/projects/:projectId", {
      params: { projectId: Project.fields.projectId },
      payload: Project.mapFields(Struct.omit(["projectId"])).annotate({ identifier: "ConnectProject" }),
      success: told(ProjectResource),
      error: FactConflict
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Connect a project",
      description: "Somebody connected a repository to an organization. Counts if it was after the recipient's first claim there."
    })),
    HttpApiEndpoint.put("payInvoice", "/invoices/:invoiceId", {
      params: { invoiceId: Invoice.fields.invoiceId },
      payload: Invoice.mapFields(Struct.omit(["invoiceId"])).annotate({ identifier: "PayInvoice" }),
      success: told(InvoiceResource),
      error: FactConflict
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Record a paid invoice",
      description: "The organization's first invoice of kind `subscription_initial` above zero is its conversion, if it was paid after " +
        "the organization's first claim."
    }))
  )
  .prefix("/api/internal/v1")
  .middleware(Authenticated)
  .annotate(NeededScope, "partner:ingest")
  .annotate(Area, "internal")
  .annotateMerge(
    OpenApi.annotations({
      title: "Facts",
      description: "Idempotent by the id in the address: an equal body again is 200, another one 409."
    })
  )
{}

const methods = ["get", "post", "put", "delete"] as const

const ids: Record<string, string> = {
  claimId: "Chosen by the caller, a UUID.",
  projectId: "The project's id in the operator's system, 1 to 200 characters.",
  invoiceId: "The invoice's id in the operator's system, 1 to 200 characters.",
  endpointId: "Id of a webhook endpoint of the key's grant.",
  eventId: "Id of an event in the grant's feed.",
  repo: "The repository, as `owner/name`, in any case of letters.",
  ref: "A listed ref, as it was listed.",
  name: "The name of an MCP server.",
  sandboxId: "Id of a sandbox of the key's grant.",
  ids: "1 to 100 ids of sandboxes, with commas between them.",
  provider: "Name of the provider.",
  automationId: "Id of an automation of the key's grant."
}

/** The endpoints below `/api/internal/v1`, with a document of their own. */
export class InternalApi extends HttpApi.make("slipway-internal")
  .add(FactsApi)
  .add(WebhooksApi)
  .add(TrustedRefsApi)
  .add(RepositorySettingsApi)
  .add(McpServersApi)
  .add(ModelsApi)
  .add(AutomationsApi)
  .add(KeepingApi)
  .add(ReviewsApi)
  .add(AuditApi)
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" })
  .annotateMerge(OpenApi.annotations({
    title: "Slipway, for its operator",
    version: "1.0.0",
    summary: "How sign-up and billing tell Slipway of claims, projects and payments, grants of their webhooks, and programs of its models",
    description: "Facts need a key with the scope `partner:ingest`, and every such call may be repeated. Webhooks need a key of their " +
      "grant with the scope `webhooks`, the refs whose setups have secrets, the settings of repositories and MCP servers one with " +
      "`secrets`, the models of the service one with `models`, automations one of their grant with `automations`. Deleting sandboxes " +
      "needs `sandboxes:delete`; comments and checks of pull requests need `sandboxes`; the audit log needs `audit:read`.",
    license: { name: "Apache-2.0", url: "https://www.apache.org/licenses/LICENSE-2.0.html" },
    servers: [{ url: "/", description: "This server" }],
    transform: (spec) => {
      const document = tidy(spec as OpenApi.OpenAPISpec)
      for (const item of Object.values(document.paths)) {
        for (const parameter of methods.flatMap((method) => item[method]?.parameters ?? [])) {
          parameter.description = ids[parameter.name] ?? parameter.description ?? ""
        }
      }
      return {
        ...document,
        components: {
          ...document.components,
          securitySchemes: {
            apiKey: {
              type: "http",
              scheme: "bearer",
              description: "An API key with the scope `partner:ingest`, `webhooks`, `secrets`, `models`, `automations`, `sandboxes`, " +
                "`sandboxes:delete` or `audit:read`."
            }
          }
        }
      }
    }
  }))
{}
