/**
 * AWS credentials of the environment as AWS's programs find them: variables, the shared files with their profiles and roles, single
 * sign-on, a web identity (Kubernetes), the container's and the instance's metadata. Requests are signed by Signature Version 4.
 */
import { awsEndpoint } from "@slipway/domain/models/schema/CloudUpstream"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import { OutgoingAgent } from "@slipway/machine/network/OutgoingRequest"
import { CachedCredentials, type Fetched } from "./CachedCredentials.ts"
import type { Authorized, Environment, ToAuthorize } from "./CloudCredentials.ts"

export interface AwsCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
}

const silent = { trace: () => {}, debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** The credentials of the variables; `null`: they are not there, or a profile is chosen instead. */
const inVariables = (environment: Environment): AwsCredentials | null => {
  const { AWS_ACCESS_KEY_ID: id, AWS_PROFILE: profile, AWS_SECRET_ACCESS_KEY: secret, AWS_SESSION_TOKEN: token } = environment
  if ((profile ?? "") !== "" || (id ?? "") === "" || (secret ?? "") === "") return null
  return { accessKeyId: id ?? "", secretAccessKey: secret ?? "", ...((token ?? "") === "" ? {} : { sessionToken: token }) }
}

/** The variables with secrets, which are read once. A chosen profile may still refer to those of the environment. */
export const secretsIn = (environment: Environment): ReadonlyArray<string> => [
  "AWS_CONTAINER_AUTHORIZATION_TOKEN",
  ...(inVariables(environment) === null ? [] : ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
]

const library = () => Promise.all([import("@aws-sdk/credential-provider-node"), import("@smithy/node-http-handler")])

/** The source of other credentials. Roles are assumed and metadata is asked in it. */
const chain = (environment: Environment) => async (): Promise<Fetched<AwsCredentials>> => {
  const [{ defaultProvider }, { NodeHttpHandler }] = await library()
  const token = environment["AWS_CONTAINER_AUTHORIZATION_TOKEN"] ?? ""
  const provider = defaultProvider({
    logger: silent,
    // A file may have been replaced.
    ignoreCache: true,
    // For the service of tokens. Metadata are asked directly.
    clientConfig: { requestHandler: new NodeHttpHandler({ httpsAgent: new OutgoingAgent() }) },
    ...(token === "" ? {} : { awsContainerAuthorizationToken: token })
  })
  const { accessKeyId, expiration, secretAccessKey, sessionToken } = await provider()
  return { value: { accessKeyId, secretAccessKey, sessionToken }, expiresAt: expiration?.getTime() ?? Infinity }
}

/** The headers of the signature. Only the host, the body and AWS's own headers are signed, so that proxies may change others. */
export const sign = async (
  { accessKeyId, secretAccessKey, sessionToken }: AwsCredentials,
  upstream: Pick<Upstream, "baseUrl" | "region">,
  { body, method, url }: ToAuthorize
): Promise<Authorized> => {
  const endpoint = awsEndpoint(upstream)
  if (endpoint === null) throw new Error("the upstream has no region")
  const { AwsV4Signer } = await import("aws4fetch")
  const signer = new AwsV4Signer({
    method,
    url: url.href,
    body: new Uint8Array(body),
    accessKeyId,
    secretAccessKey,
    ...(sessionToken === undefined ? {} : { sessionToken }),
    ...endpoint
  })
  const { headers } = await signer.sign()
  return { headers: Object.fromEntries(headers), secrets: [secretAccessKey, ...(sessionToken === undefined ? [] : [sessionToken])] }
}

/** The words of the source, if it is a short sentence of AWS's own library; the messages of servers are left out. */
const detailOf = (error: unknown): string => {
  const name = error instanceof Error ? error.name : ""
  return /^\w{1,60}$/u.test(name) && name !== "Error" ? ` (${name})` : ""
}

export const identity = (environment: Environment, now: () => number) => {
  const fixed = inVariables(environment)
  return {
    cache: new CachedCredentials<AwsCredentials>({
      ...(fixed === null ? { load: library } : {}),
      fetch: fixed === null ? chain(environment) : () => Promise.resolve({ value: fixed, expiresAt: Infinity }),
      now
    }),
    authorize: sign,
    explain: (error: unknown) =>
      `There are no AWS credentials${detailOf(error)}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, choose AWS_PROFILE, ` +
      "or give this machine or its service account a role."
  }
}
