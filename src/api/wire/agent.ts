/** Owns the shapes of the agent itself, and of search. */

/** GET /v1/agent/self. */
export interface AgentSelf {
  readonly config: Readonly<Record<string, unknown>>;
  readonly member: AgentMember;
  readonly stats: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

export interface AgentMember {
  readonly Name: string;
  readonly Addr: string;
  readonly Port: number;
  readonly Status: 'alive';
  readonly Tags: Readonly<Record<string, string>>;
}

/** GET /v1/agent/health: 200 when both are ok, else 500. */
export interface AgentHealth {
  readonly client: { readonly ok: boolean; readonly message: string };
  readonly server: { readonly ok: boolean; readonly message: string };
}

/** Answer to PUT /v1/search. */
export interface SearchResponse {
  readonly Matches: Readonly<Record<string, readonly string[]>>;
  readonly Truncations: Readonly<Record<string, boolean>>;
}
