/** A sandbox as the interface shows it (2.1): every field always there, nothing else. */
import { SandboxId, worktreeId } from "@slipway/domain/ids/SandboxId"
import { AgentRuntimeName } from "@slipway/domain/models/schema/AgentRuntimeName"
import { Usage } from "@slipway/domain/models/schema/Usage"
import type { SandboxSummary } from "@slipway/domain/sandbox/ports/SandboxStore"
import { isUnderWay } from "@slipway/domain/sandbox/rules/Turn"
import { SandboxStatus } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { format, Timestamp, timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"

const link = (description: string) => Schema.String.annotate({ format: "uri" }).annotateKey({ description })

/** A sandbox as the interface shows it (docs/interface.md 2.1). */
export const SandboxResource = Schema.Struct({
  id: SandboxId.annotateKey({ description: "Names the sandbox." }),
  worktreeId: Schema.NonEmptyString.annotateKey({ description: "Names its working trees." }),
  object: Schema.Literal("sandbox").annotateKey({ description: "Always `sandbox`." }),
  status: SandboxStatus.annotateKey({ description: "Where it is in its life." }),
  title: Schema.String.annotateKey({ description: "For people; as given, or the first line of the prompt." }),
  repos: Schema.Array(RepoRef).annotateKey({ description: "What it works on, as given." }),
  model: Schema.NullOr(Schema.String).annotateKey({ description: "The model's id in the catalogue." }),
  agentRuntime: AgentRuntimeName.annotateKey({ description: "The program that drives the model." }),
  turn: Schema.Struct({
    active: Schema.Boolean.annotateKey({ description: "A turn is pending, running or waits for an approval or an answer." })
  }).annotateKey({ description: "What the agent is doing." }),
  usage: Usage.annotateKey({ description: "Eventually consistent." }),
  metadata: Schema.Record(Schema.String, Schema.String).annotateKey({ description: "As given." }),
  error: Schema.NullOr(Schema.String).annotateKey({ description: "Why it failed, a sentence for people; `null` unless it did." }),
  createdAt: timestamp("When it was accepted."),
  startedAt: Schema.NullOr(Timestamp).annotateKey({ description: "When it first ran; `null` before." }),
  completedAt: Schema.NullOr(Timestamp).annotateKey({ description: "When it first was succeeded, failed or terminated; `null` before." }),
  links: Schema.Struct({
    self: link("The sandbox."),
    events: link("Its events."),
    messages: link("Its conversation.")
  }).annotateKey({ description: "Absolute, from the configured public address." })
}).annotate({ identifier: "Sandbox" })
/** The decoded sandbox: times are instants. */
export type SandboxResource = typeof SandboxResource.Type

/** Address of a sandbox. `publicUrl` has no slash at its end and never comes from a request. */
const selfLink = (publicUrl: string, id: SandboxId): string => `${publicUrl}/api/public/v1/sandboxes/${id}`

/** The resource of a sandbox. `publicUrl` has no slash at its end and never comes from a request. */
export const toResource = (sandbox: SandboxSummary, publicUrl: string): SandboxResource => {
  const self = selfLink(publicUrl, sandbox.id)
  return {
    id: sandbox.id,
    worktreeId: worktreeId(sandbox.id),
    object: "sandbox",
    status: sandbox.status,
    title: sandbox.title,
    repos: sandbox.repos,
    model: sandbox.model,
    agentRuntime: sandbox.agentRuntime,
    turn: { active: sandbox.turn !== null && isUnderWay(sandbox.turn.state) },
    usage: sandbox.usage,
    metadata: sandbox.metadata,
    error: sandbox.status === "failed" ? sandbox.error : null,
    createdAt: sandbox.createdAt,
    startedAt: sandbox.startedAt,
    completedAt: sandbox.completedAt,
    links: { self, events: `${self}/events`, messages: `${self}/messages` }
  }
}

/**
 * Encodes a resource as its schema does, but faster: only instants differ between the two forms. Tests compare it with the schema.
 */
export const encoded = (resource: SandboxResource): typeof SandboxResource.Encoded => ({
  ...resource,
  createdAt: format(resource.createdAt),
  startedAt: resource.startedAt === null ? null : format(resource.startedAt),
  completedAt: resource.completedAt === null ? null : format(resource.completedAt)
})
