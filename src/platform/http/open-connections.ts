import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { groupOfAddress } from './address-group.ts';

/**
 * The connections of a server. If there are too many, one that waits for its sender is closed: idle ones first, then those with
 * an incomplete request; of these, one of the address that has most, and there the one that was silent for longest. A connection
 * whose sender waits for our answer is never closed.
 */
export interface Connections {
  /** Records that a request is complete: its sender now waits for the answer. */
  arrived(socket: Socket): void;
}

/** Open connections; each takes some memory. */
const MOST = 2_000;
/** Connections that are accepted above the limit, while others are closed. */
const SLACK = 500;

type State = 'idle' | 'receiving' | 'answering';

interface Connection {
  readonly socket: Socket;
  readonly group: string;
  state: State;
}

export function limitConnections(server: Server, most = MOST): Connections {
  const known = new Map<Socket, Connection>();
  const idle = createLine();
  const receiving = createLine();
  server.maxConnections = most + SLACK;

  /** Connections whose sender waits for an answer are in no line. */
  const lines = { idle, receiving, answering: undefined };
  const enter = (connection: Connection, state: State) => {
    lines[connection.state]?.remove(connection);
    connection.state = state;
    lines[state]?.add(connection);
  };
  const forget = (connection: Connection) => {
    lines[connection.state]?.remove(connection);
    known.delete(connection.socket);
  };
  const giveUp = (connection: Connection) => {
    forget(connection);
    connection.socket.destroy();
  };

  server.on('connection', (socket: Socket) => {
    const connection: Connection = { socket, group: groupOfAddress(socket.remoteAddress ?? ''), state: 'idle' };
    known.set(socket, connection);
    socket.on('close', () => forget(connection));
    if (known.size > most) giveUp(idle.worst() ?? receiving.worst() ?? connection);
    if (known.has(socket)) idle.add(connection);
  });
  server.on('request', ({ socket }, response: ServerResponse) => {
    const connection = known.get(socket);
    if (!connection) return;
    enter(connection, 'receiving');
    response.on('close', () => {
      if (known.has(socket)) enter(connection, 'idle');
    });
  });
  return {
    arrived(socket) {
      const connection = known.get(socket);
      if (connection?.state === 'receiving') enter(connection, 'answering');
    },
  };
}

/** Connections by address, and within one address in the order in which they began to wait. */
function createLine() {
  const groups = new Map<string, Set<Connection>>();
  return {
    add(connection: Connection): void {
      const group = groups.get(connection.group);
      if (group) group.add(connection);
      else groups.set(connection.group, new Set([connection]));
    },
    remove(connection: Connection): void {
      const group = groups.get(connection.group);
      if (group?.delete(connection) && group.size === 0) groups.delete(connection.group);
    },
    worst(): Connection | undefined {
      let largest: Set<Connection> | undefined;
      for (const group of groups.values()) if (!largest || group.size > largest.size) largest = group;
      return largest?.values().next().value;
    },
  };
}
