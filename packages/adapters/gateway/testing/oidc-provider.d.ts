/** The part of `oidc-provider` that tests use. The package has no types. */
declare module "oidc-provider" {
  import type { IncomingMessage, ServerResponse } from "node:http"

  interface Context {
    readonly req: IncomingMessage
    readonly res: ServerResponse
    readonly path: string
  }

  interface Stored {
    readonly clientId?: string
    readonly aud?: string | ReadonlyArray<string>
    readonly isExpired: boolean
    destroy(): Promise<void>
  }

  export default class Provider {
    constructor(issuer: string, configuration: object)
    proxy: boolean
    readonly Grant: new(of: { readonly accountId: string; readonly clientId: unknown }) => {
      addOIDCScope(scope: string): void
      addResourceScope(resource: string, scope: string): void
      save(): Promise<string>
    }
    readonly AccessToken: { find(token: string): Promise<Stored | undefined> }
    use(middleware: (context: Context, next: () => Promise<void>) => Promise<unknown>): void
    callback(): (request: IncomingMessage, response: ServerResponse) => void
    interactionDetails(request: IncomingMessage, response: ServerResponse): Promise<{
      readonly params: Readonly<Record<string, unknown>>
      readonly prompt: { readonly name: string }
    }>
    interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>
    on(event: string, listener: (...args: ReadonlyArray<unknown>) => void): void
  }
}
