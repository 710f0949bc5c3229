"""Slow, literal implementations of the paper's algorithms, and other oracles.

Written with loops, close to the printed text, and used by nothing but the tests.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog, minimize
from scipy.stats import multivariate_normal


def rbf_similarities(X, gamma):
    """Step 1 of Algorithm 1: W_ij = exp(-γ‖x_i - x_j‖²), W_ii = 0."""
    n = len(X)
    W = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                W[i, j] = np.exp(-gamma * sum((X[i, d] - X[j, d]) ** 2 for d in range(X.shape[1])))
    return W


def knn_similarities(X, k):
    """Self-tuned similarities on the union of neighbor lists."""
    n = len(X)
    k = min(k, n - 1)
    distance = np.array([[np.sqrt(((a - b) ** 2).sum()) for b in X] for a in X])
    neighbors = [
        sorted((j for j in range(n) if j != i), key=lambda j: distance[i, j])[:k] for i in range(n)
    ]
    scale = [max(distance[i, j] for j in neighbors[i]) for i in range(n)]
    W = np.zeros((n, n))
    for i in range(n):
        for j in neighbors[i]:
            W[i, j] = W[j, i] = np.exp(-(distance[i, j] ** 2) / (scale[i] * scale[j]))
    return W


def walk_matrix(W):
    """Step 2 of Algorithm 1: S = D⁻¹W."""
    S = np.zeros_like(W)
    for i in range(len(W)):
        degree = sum(W[i])
        for j in range(len(W)):
            S[i, j] = W[i, j] / degree if degree > 0 else 0.0
    return S


def algorithm_1(W, Y, alpha, n_steps=2000):
    """Iterate F ← αSF + (1-α)Y from F = Y to its limit."""
    S = walk_matrix(W)
    F = Y.copy()
    for _ in range(n_steps):
        updated = np.zeros_like(F)
        for i in range(len(Y)):
            updated[i] = alpha * (S[i] @ F) + (1 - alpha) * Y[i]
        if np.abs(updated - F).max() < 1e-15:
            return updated
        F = updated
    return F


def alternating_projections(f, bag, mass, tol=1e-12, max_sweeps=1000):
    """The paper's projection, one column: onto the box, then onto the bags' sums, in turn."""
    f = f.copy()
    for _ in range(max_sweeps):
        for i in range(len(f)):
            f[i] = min(max(f[i], 0.0), 1.0)
        worst = 0.0
        shift = {}
        for k in range(len(mass)):
            members = [i for i in range(len(f)) if bag[i] == k]
            shift[k] = (mass[k] - sum(f[i] for i in members)) / len(members)
            worst = max(worst, abs(shift[k]))
        if worst <= tol:
            return f
        for i in range(len(f)):
            if bag[i] >= 0:
                f[i] += shift[bag[i]]
    return f


def algorithm_2(W, bag, mass, alpha, *, literal=True, tol=1e-10, max_iter=200):
    """The paper's Algorithm 2: f ← (I - αS)⁻¹ f, then alternating projections, until it rests.

    Stops when ‖f_new - f‖_D ≤ tol ‖f‖_D. With `literal=False` the factor (1-α) is kept.
    """
    n = len(W)
    S = walk_matrix(W)
    degree = W.sum(axis=1)
    inverse = np.linalg.inv(np.eye(n) - alpha * S) * (1.0 if literal else 1 - alpha)
    sizes = [sum(1 for b in bag if b == k) for k in range(len(mass))]
    f = np.array([mass[b] / sizes[b] for b in bag])
    for _ in range(max_iter):
        updated = alternating_projections(inverse @ f, bag, mass)
        change = np.sqrt(sum(degree * (updated - f) ** 2))
        if change <= tol * np.sqrt(sum(degree * f**2)):
            break
        f = updated
    return f


def onto_simplex(V):
    """The nearest point of the probability simplex to every row, by bisection on the shift."""
    low, high = V.min(axis=1) - 1.0, V.max(axis=1)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = np.maximum(V - middle[:, None], 0).sum(axis=1) > 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.maximum(V - 0.5 * (low + high)[:, None], 0)


def dykstra(F, bag, lower, upper, weights, tol=1e-11, max_sweeps=20000):
    """The nearest point of C in the norm of the weights, or None when it converges too slowly."""
    X, p, q = F.copy(), np.zeros_like(F), np.zeros_like(F)
    for _ in range(max_sweeps):
        Y = onto_simplex(X + p)
        p = X + p - Y
        Z = Y + q
        moved = Z.copy()
        for k in range(len(lower)):
            members = np.flatnonzero(bag == k)
            sums = Z[members].sum(axis=0)
            wanted = np.clip(sums, lower[k], upper[k])
            inverse = 1.0 / weights[members]
            moved[members] += inverse[:, None] * (wanted - sums) / inverse.sum()
        q = Z - moved
        done = np.abs(moved - X).max() < tol and np.abs(Y - moved).max() < tol
        X = moved
        if done:
            return Y
    return None


def distance_to_nearest(G, F, bag, mass, weights):
    """A bound on ‖G - the nearest point of C to F‖ in the norm of the weights, for G of C.

    G is the nearest point if and only if ⟨F - G, Z - G⟩ ≤ 0 for every Z of C. The largest value of
    this product, found by a linear program, is never below the squared distance.
    """
    n, c = F.shape
    row_sums = np.kron(np.eye(n), np.ones(c))
    bag_sums = np.kron(np.array([bag == k for k in range(len(mass))], dtype=float), np.eye(c))
    slope = (weights[:, None] * (F - G)).ravel()
    farthest = linprog(
        -slope,
        A_eq=np.vstack([row_sums, bag_sums]),
        b_eq=np.concatenate([np.ones(n), mass.ravel()]),
        bounds=(0, 1),
    )
    assert farthest.success, farthest.message
    return np.sqrt(max(slope @ (farthest.x - G.ravel()), 0.0))


def best_assignment_value(F, bag, counts):
    """The largest Σ F[i, y_i] over labels with the given counts per bag."""
    total = 0.0
    for k in range(len(counts)):
        members = np.flatnonzero(bag == k)
        seats = np.repeat(np.arange(F.shape[1]), counts[k])
        value = F[members][:, seats]
        total += value[linear_sum_assignment(-value)].sum()
    return total


def paper_problem(W, f0, bag, mass, tau):
    """The paper's constrained problem, ½τ·Dirichlet(f) + ½‖f - f⁰‖²_D over C, by SLSQP."""
    n = len(W)
    degree = W.sum(axis=1)
    laplacian = np.diag(degree) - W
    sums = [
        {"type": "eq", "fun": lambda f, k=k: f[bag == k].sum() - mass[k]} for k in range(len(mass))
    ]
    found = minimize(
        lambda f: 0.5 * tau * f @ laplacian @ f + 0.5 * (degree * (f - f0) ** 2).sum(),
        f0,
        jac=lambda f: tau * laplacian @ f + degree * (f - f0),
        bounds=[(0, 1)] * n,
        constraints=sums,
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-15},
    )
    return found.x


def bag_mean_regression(X, bags, shares, C, epsilon=0.0, clip=0.01):
    """InvCal with a linear kernel, as the quadratic program that Rüping prints; returns w and b."""
    n_bags, d = len(shares), X.shape[1]
    means = np.array([X[bags == k].mean(axis=0) for k in range(n_bags)])
    p = np.clip(shares, clip, 1 - clip)
    target = -np.log(1 / p - 1)

    def split(z):
        return z[:d], z[d], z[d + 1 : d + 1 + n_bags], z[d + 1 + n_bags :]

    def objective(z):
        w, _, above, below = split(z)
        return 0.5 * w @ w + C * (above.sum() + below.sum())

    def slack(z):
        w, b, above, below = split(z)
        off = means @ w + b - target
        return np.concatenate([epsilon + above - off, epsilon + below + off])

    found = minimize(
        objective,
        np.concatenate([np.zeros(d + 1), np.full(2 * n_bags, np.abs(target).max() + 1)]),
        constraints={"type": "ineq", "fun": slack},
        bounds=[(None, None)] * (d + 1) + [(0, None)] * (2 * n_bags),
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-14},
    )
    w, b, _, _ = split(found.x)
    return w, b


def proportion_loss(y, bags, shares):
    """Σ_k n_k |p̃_k(y) - p_k|, bag by bag."""
    return sum(abs((y[bags == k] > 0).sum() - p * (bags == k).sum()) for k, p in enumerate(shares))


def best_labels(f, bags, shares, C, C_p):
    """The label step of alter-∝SVM by trying all 2^n labels of every bag."""
    y = np.empty(len(f))
    for k, p in enumerate(shares):
        rows = np.flatnonzero(bags == k)
        best = None
        for labels in itertools.product([-1.0, 1.0], repeat=len(rows)):
            labels = np.array(labels)
            hinge = np.maximum(0, 1 - labels * f[rows]).sum()
            cost = C * hinge + C_p * abs((labels > 0).sum() - p * len(rows))
            if best is None or cost < best[0] - 1e-12:
                best = (cost, labels)
        y[rows] = best[1]
    return y


def alternating_svm(X, bags, shares, start, C, C_p):
    """alter-∝SVM with a linear kernel, as Yu et al. print it: returns labels, w, b, objective."""
    y, weight = start.copy(), 1e-5 * C
    while weight < C:
        weight = min(1.5 * weight, C)
        last = np.inf
        while True:
            w, b = linear_svm(X, y, weight)
            y = best_labels(X @ w + b, bags, shares, weight, C_p)
            value = svm_objective(X, y, w, b, weight) + C_p * proportion_loss(y, bags, shares)
            if last - value < 1e-4:
                break
            last = value
    w, b = linear_svm(X, y, C)
    return y, w, b, svm_objective(X, y, w, b, C) + C_p * proportion_loss(y, bags, shares)


def linear_svm(X, y, C):
    """argmin ½‖w‖² + C Σ max(0, 1 - y_i (w·x_i + b)), as a quadratic program with slacks."""
    n, d = X.shape
    if (y == y[0]).all():
        return np.zeros(d), y[0]
    found = minimize(
        lambda z: 0.5 * z[:d] @ z[:d] + C * z[d + 1 :].sum(),
        np.concatenate([np.zeros(d + 1), np.ones(n)]),
        jac=lambda z: np.concatenate([z[:d], [0.0], np.full(n, C)]),
        constraints={
            "type": "ineq",
            "fun": lambda z: y * (X @ z[:d] + z[d]) - 1 + z[d + 1 :],
            "jac": lambda z: np.hstack([y[:, None] * X, y[:, None], np.eye(n)]),
        },
        bounds=[(None, None)] * (d + 1) + [(0, None)] * n,
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    return found.x[:d], found.x[d]


def svm_objective(X, y, w, b, C):
    return 0.5 * w @ w + C * np.maximum(0, 1 - y * (X @ w + b)).sum()


def nearest_neighbors_vote(W, prior):
    """Weighted k-NN: every row the weighted mean of its neighbors' bag proportions."""
    F = np.empty_like(prior)
    for i in range(len(W)):
        F[i] = sum(W[i, j] * prior[j] for j in range(len(W))) / W[i].sum()
    return F


def posterior_given_count(logits, count):
    """Return log P(Σ y = count) and P(y_i = 1 | count), by a sum over all labelings."""
    logs, labelings = [], []
    for y in itertools.product((0, 1), repeat=len(logits)):
        if sum(y) == count:
            signs = 2.0 * np.array(y) - 1.0
            logs.append(-np.logaddexp(0.0, -signs * logits).sum())
            labelings.append(y)
    largest = max(logs)
    shares = np.exp(np.array(logs) - largest)
    return largest + np.log(shares.sum()), shares @ np.array(labelings) / shares.sum()


def tied_class_means(means, shares, weights, ties, smoothing, ridge):
    """The class means of every bag and, last, of the hub: least squares, a row per square.

    `ties` are the similarities of all pairs of bags and the hub.
    """
    K, c = shares.shape
    overall = weights @ means / weights.sum()
    rows, right = [], []

    def add_square(weight, terms, value):
        row = np.zeros((K + 1, c))
        for (k, h), factor in terms.items():
            row[k, h] = factor
        rows.append(np.sqrt(weight) * row.ravel())
        right.append(np.sqrt(weight) * value)

    for k in range(K):
        add_square(weights[k], {(k, h): shares[k, h] for h in range(c)}, means[k])
    for h in range(c):
        for k in range(K + 1):
            for other in range(k):
                add_square(
                    smoothing * ties[k, other], {(k, h): 1.0, (other, h): -1.0}, 0.0 * overall
                )
        add_square(ridge, {(K, h): 1.0}, overall)
    return np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0].reshape(K + 1, c, -1)


def refined_labels(W, bag, counts, ranks, start, seen=None):
    """Refinement of two classes from one start, row by row: labels and their smoothness."""
    n = len(start)
    seen = np.ones(n, dtype=bool) if seen is None else seen
    S = walk_matrix(W)

    def decoded(scores):
        labels = np.zeros(n, dtype=int)
        for k in range(len(counts)):
            members = [i for i in range(n) if bag[i] == k]
            members.sort(key=lambda i: (-round(scores[i] / 1e-9), ranks[i]))
            labels[members[: counts[k]]] = 1
        return labels

    def mean_labels(labels):
        signs = np.where(seen, labels - 0.5, 0.0)
        means = np.array([sum(S[i, j] * signs[j] for j in range(n)) for i in range(n)])
        return signs, means

    labels, best, highest = decoded(start), None, -np.inf
    for _ in range(50):
        signs, means = mean_labels(labels)
        agreement = sum(0.5 * seen[i] + 2.0 * signs[i] * means[i] for i in range(n)) / n
        if agreement <= highest + 1e-12:
            break
        best, highest = labels, agreement
        labels = decoded(means + 0.1 * start)
    return best, highest


def count_log_likelihood(means, shares, bag, counts):
    """Normal log-likelihood of counts, at the best trust in the means and the best correlation."""
    best = -np.inf
    for t in [0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1]:
        for rho in [0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3]:
            total = 0.0
            for k in range(len(counts)):
                members = [i for i in range(len(bag)) if bag[i] == k]
                p = [shares[i] + t * (means[i] - shares[i]) for i in members]
                m, s = sum(p) / len(p), len(p)
                variance = sum(q * (1 - q) for q in p) + rho * s * (s - 1) * m * (1 - m) + 0.25
                total -= 0.5 * ((counts[k] - sum(p)) ** 2 / variance + np.log(variance))
            best = max(best, total)
    return best


def centered_kernel(K):
    """Return K with mean 0 over rows and columns, and mean 1 on the diagonal."""
    n = len(K)
    H = np.eye(n) - np.full((n, n), 1 / n)
    K = H @ K @ H
    return K * n / np.trace(K)


def aggregate_regression(K, bags, counts, theta):
    """Return the posterior mean of every row's label, and the log density of the counts.

    The labels are y_h = π̄_h + g_h + noise with covariance v_h (θ K + (1 - θ) I); the counts of a
    bag are sums of labels.
    """
    n, c = len(K), counts.shape[1]
    A = np.zeros((len(counts), n))
    A[bags, np.arange(n)] = 1.0
    overall = counts.sum(axis=0) / n
    mean, evidence = np.zeros((n, c)), 0.0
    for h in range(c):
        v = overall[h] * (1 - overall[h])
        labels = v * (theta * K + (1 - theta) * np.eye(n))
        off = counts[:, h] - A.sum(axis=1) * overall[h]
        covariance = A @ labels @ A.T
        mean[:, h] = overall[h] + v * theta * K @ A.T @ np.linalg.solve(covariance, off)
        evidence += multivariate_normal.logpdf(off, cov=covariance) * (c - 1) / c
    return mean, evidence


def averaged_regression(kernels, bags, counts, thetas, power):
    """Return the mean over θ, weighted by evidence, and over kernels, by a power of evidence."""
    means, evidences = [], []
    null = aggregate_regression(np.eye(len(bags)), bags, counts, 0.0)[1]
    for K in kernels:
        fits = [aggregate_regression(centered_kernel(K), bags, counts, theta) for theta in thetas]
        density = np.exp([evidence - null for _, evidence in fits])
        means.append(
            sum(d * mean for d, (mean, _) in zip(density, fits, strict=True)) / density.sum()
        )
        evidences.append(density.mean())
    weights = np.array(evidences) ** power
    weights /= weights.sum()
    P = np.maximum(sum(w * mean for w, mean in zip(weights, means, strict=True)), 1e-3)
    return P / P.sum(axis=1, keepdims=True), weights, np.log(np.mean(evidences))


def smoothed_along_time(P, times, sequence, shares, change, trust):
    """Posterior class probabilities of a chain that stays or is drawn anew, row by row.

    The usual step of a sequence is the lower median of its positive gaps.
    """
    smoothed = np.empty_like(P)
    for name in np.unique(sequence):
        rows = np.flatnonzero(sequence == name)
        rows = rows[np.argsort(times[rows], kind="stable")]
        gaps = np.diff(times[rows])
        positive = np.sort(gaps[gaps > 0])
        step = positive[(len(positive) - 1) // 2] if len(positive) else np.inf
        evidence = (P[rows] / shares) ** trust
        stays = [(1 - change) ** max(gap / step, 1.0) for gap in gaps]
        forward = [shares * evidence[0]]
        for stay, e in zip(stays, evidence[1:], strict=True):
            before = forward[-1] / forward[-1].sum()
            forward.append((stay * before + (1 - stay) * shares) * e)
        backward = [np.ones(P.shape[1])]
        for stay, e in zip(stays[::-1], evidence[:0:-1], strict=True):
            after = e * backward[-1]
            after = after / after.sum()
            backward.append(stay * after + (1 - stay) * (after @ shares))
        posterior = np.array(forward) * np.array(backward[::-1])
        smoothed[rows] = posterior / posterior.sum(axis=1, keepdims=True)
    return smoothed


def labelings(n, c, given=None):
    """All labels of n rows that keep the given ones (-1 = none)."""
    given = np.full(n, -1) if given is None else given
    choices = [range(c) if g < 0 else [g] for g in given]
    return [np.array(labels) for labels in itertools.product(*choices)]


def value_along_time(scores, labels, order, closeness, cost):
    """Σ scores - cost · Σ closeness over changes between rows that follow each other."""
    value = 0.0
    for k, row in enumerate(order):
        value += scores[row, labels[row]]
        if k > 0 and labels[row] != labels[order[k - 1]]:
            value -= cost * closeness[k]
    return value


def episodes_begun(labels, bag, order, begins, shape):
    """How many episodes of each class begin in each bag; begins[k] of the k-th row in order."""
    begun = np.zeros(shape)
    for k, row in enumerate(order):
        if bag[row] >= 0 and (begins[k] or labels[row] != labels[order[k - 1]]):
            begun[bag[row], labels[row]] += 1
    return begun


def best_along_time(scores, bag, given, counts, order, closeness, cost, most=None):
    """The largest value along time over all labels with the counts of rows that are not given.

    With `most`, among those with at most so many episodes; -inf if there are none.
    """
    best = -np.inf
    for labels in labelings(*scores.shape, given):
        tally = np.zeros_like(counts)
        for k, h, g in zip(bag, labels, given, strict=True):
            if k >= 0 and g < 0:
                tally[k, h] += 1
        if most is not None:
            begun = episodes_begun(labels, bag, order, closeness == 0, most.shape)
            if (begun > most).any():
                continue
        if (tally == counts).all():
            best = max(best, value_along_time(scores, labels, order, closeness, cost))
    return best


def chain_posterior(likelihoods, stay, draw, shares):
    """Class probabilities, probabilities of fresh draws, and likelihood, by adding up all paths."""
    n, c = likelihoods.shape
    classes, fresh, total = np.zeros((n, c)), np.zeros(n), 0.0
    for path in labelings(n, c):
        kept, drawn = np.zeros(n), np.zeros(n)
        for t in range(n):
            kept[t] = stay[t] if t > 0 and path[t] == path[t - 1] else 0.0
            drawn[t] = draw[t] * shares[path[t]]
        weight = np.prod([likelihoods[t, path[t]] * (kept[t] + drawn[t]) for t in range(n)])
        total += weight
        classes[np.arange(n), path] += weight
        fresh += weight * drawn / np.maximum(kept + drawn, 1e-300)
    return classes / total, fresh / total, total


def context_of_rows(X, times, sequence, reach):
    """Means and deviations over the rows up to `reach` places away, row by row, in fractions.

    A gap of more than `reach` times the median positive gap of the sequence ends the context.
    """
    around = np.zeros((len(X), 3 * X.shape[1]))
    for name in set(sequence.tolist()):
        rows = [i for i in np.argsort(times, kind="stable") if sequence[i] == name]
        gaps = [times[b] - times[a] for a, b in itertools.pairwise(rows)]
        positive = sorted(gap for gap in gaps if gap > 0)
        usual = positive[(len(positive) - 1) // 2] if positive else 0.0
        for place, row in enumerate(rows):
            near = [row]
            for step in (-1, 1):
                k = place
                while 0 <= k + step < len(rows) and abs(k + step - place) <= reach:
                    if gaps[min(k, k + step)] > max(reach, 1) * usual:
                        break
                    k += step
                    near.append(rows[k])
            for d in range(X.shape[1]):
                values = [Fraction(float(X[i, d])) for i in near]
                mean = sum(values) / len(values)
                variance = sum((value - mean) ** 2 for value in values) / len(values)
                cells = X[row, d], float(mean), np.sqrt(float(variance))
                around[row, d :: X.shape[1]] = cells
    return around


def error_covariance(W, F, bag, widths, given, alpha):
    """The covariance of the errors of soft labels that `suggest_rows` assumes, as a full matrix.

    A Gaussian field on the graph that is 0 at given rows, scaled by the rows' deviations, less what
    the totals of the bags rule out. `widths` are those of the totals' intervals.
    """
    n, tau = len(W), alpha / (1 - alpha)
    degrees = [sum(W[i]) for i in range(n)]
    metric = [max(d, 1e-2 * sum(degrees) / n) for d in degrees]
    free = [i for i in range(n) if not given[i]]
    precision = np.array(
        [
            [(metric[i] + tau * degrees[i] if i == j else 0.0) - tau * W[i][j] for j in free]
            for i in free
        ]
    )
    inverse = np.linalg.inv(precision)
    variance = [0.0 if given[i] else 1 - sum(p * p for p in F[i]) for i in range(n)]
    C = np.zeros((n, n))
    for a, i in enumerate(free):
        for b, j in enumerate(free):
            C[i, j] = inverse[a, b] * np.sqrt(metric[i] * metric[j] * variance[i] * variance[j])
    keep = np.eye(n)
    for i in range(n):
        members = [j for j in range(n) if bag[j] == bag[i] >= 0]
        total = sum(variance[j] for j in members)
        if total > 0:
            known = total / (total + sum(w * w for w in widths[bag[i]]) / 12)
            for j in members:
                keep[i, j] -= known * variance[i] / total
    return keep @ C @ keep.T


def greedy_measurements(C, measurements, n_chosen):
    """The positions and gains of measurements vᵀe, each the one that lowers tr C most."""
    chosen, gains = [], []
    for _ in range(n_chosen):
        reductions = []
        for k, v in enumerate(measurements):
            variance = v @ C @ v
            tells = variance > 1e-9 and k not in chosen
            after = C - np.outer(C @ v, C @ v) / variance if tells else C
            reductions.append(np.trace(C) - np.trace(after))
        best = int(np.argmax(reductions))
        chosen.append(best)
        gains.append(reductions[best])
        v = measurements[best]
        C = C - np.outer(C @ v, C @ v) / (v @ C @ v)
    return chosen, gains
