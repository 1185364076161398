import { describe, expect, it } from 'vitest';
import { parseTokenSource, readToken, type TokenBearer } from './token-source.js';

const nothing: TokenBearer = { auth: undefined, url: '/socket.io/?EIO=4', headers: {} };
const read = (sources: string, bearer: Partial<TokenBearer>) =>
  readToken(sources.split(',').map(parseTokenSource), { ...nothing, ...bearer });

describe('where a token stands', () => {
  it.each<[sources: string, bearer: Partial<TokenBearer>, token: string | undefined]>([
    ['auth.token', { auth: { token: 't' } }, 't'],
    ['auth.token', { auth: { token: 5 } }, undefined],
    ['auth.token', { auth: { token: '' } }, undefined],
    ['auth.token', { auth: null }, undefined],
    ['auth.token', { auth: 'token' }, undefined],
    ['auth.constructor', { auth: {} }, undefined],
    ['query.token', { url: '/socket.io/?EIO=4&token=a%2Bb&token=c' }, 'a+b'],
    ['query.token', { url: undefined }, undefined],
    ['cookie.session', { headers: { cookie: 'a=1; session="x%20y"; session=z' } }, 'x y'],
    ['cookie.session', { headers: { cookie: 'xsession=1; session=100%' } }, '100%'],
    ['cookie.session', { headers: { cookie: 'session' } }, undefined],
    ['header.authorization', { headers: { authorization: 'Bearer t.t.t' } }, 't.t.t'],
    ['header.Authorization', { headers: { authorization: 'bearer  t' } }, 't'],
    ['header.authorization', { headers: { authorization: 't' } }, 't'],
    ['header.x-token', { headers: { 'x-token': 'Bearer t' } }, 'Bearer t'],
    ['header.x-token', { headers: { 'x-token': ['one', 'two'] } }, 'one'],
    ['auth.token,query.token', { auth: { token: 'a' }, url: '/?token=q' }, 'a'],
    ['auth.token,query.token', { auth: { token: '' }, url: '/?token=q' }, 'q'],
  ])('%s of %j', (sources, bearer, token) => {
    expect(read(sources, bearer)).toBe(token);
  });

  it.each(['token', 'body.token', 'auth.', '.token', ''])('"%s" names no place', (text) => {
    expect(() => parseTokenSource(text)).toThrow(/is not one of auth\.NAME/);
  });
});
