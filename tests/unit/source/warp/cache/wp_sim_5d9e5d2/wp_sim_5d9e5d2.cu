#include "builtin.h"
extern "C" __global__ void advance_ad8fcb5c_cuda_kernel_forward(
    wp::launch_bounds_t<1> dim,
    wp::float32 var_gain,
    wp::array_t<wp::float32> var_xs,
    wp::array_t<Body_676aa1ba> var_bodies,
    wp::int32 var_n)
{
    wp::tile_shared_storage_t tile_mem;

    for (size_t _idx = static_cast<size_t>(blockDim.x) * static_cast<size_t>(blockIdx.x) + static_cast<size_t>(threadIdx.x);
         _idx < dim.size;
         _idx += static_cast<size_t>(blockDim.x) * static_cast<size_t>(gridDim.x))
    {
            // reset shared memory allocator
        wp::tile_shared_storage_t::init();

        //---------
        // primal vars
        wp::int32 var_0;
        bool var_1;
        wp::float32* var_2;
        wp::float32 var_3;
        wp::float32 var_4;
        Body_676aa1ba* var_5;
        wp::float32* var_6;
        wp::float32 var_7;
        wp::float32 var_8;
        //---------
        // forward
        // def advance(gain: float, xs: wp.array(dtype=float), bodies: wp.array(dtype=Body), n: int):       <L 18>
        // i = wp.tid()                                                                           <L 19>
        var_0 = builtin_tid1d();
        // if i < n:                                                                              <L 20>
        var_1 = (var_0 < var_n);
        if (var_1) {
            // xs[i] = pull(xs[i], gain) + bodies[i].mass                                         <L 21>
            var_2 = wp::address(var_xs, var_0);
            var_4 = wp::load(var_2);
            var_3 = pull_0(var_4, var_gain);
            var_5 = wp::address(var_bodies, var_0);
            var_6 = &(((*wp::address(var_bodies, var_0))).mass);
            var_8 = wp::load(var_6);
            var_7 = wp::add(var_3, var_8);
            wp::array_store(var_xs, var_0, var_7);
        }
    }
}



extern "C" __global__ void advance_ad8fcb5c_cuda_kernel_backward(
    wp::launch_bounds_t<1> dim,
    wp::float32 var_gain,
    wp::array_t<wp::float32> var_xs,
    wp::array_t<Body_676aa1ba> var_bodies,
    wp::int32 var_n,
    wp::float32 adj_gain,
    wp::array_t<wp::float32> adj_xs,
    wp::array_t<Body_676aa1ba> adj_bodies,
    wp::int32 adj_n)
{
    wp::tile_shared_storage_t tile_mem;

    for (size_t _idx = static_cast<size_t>(blockDim.x) * static_cast<size_t>(blockIdx.x) + static_cast<size_t>(threadIdx.x);
         _idx < dim.size;
         _idx += static_cast<size_t>(blockDim.x) * static_cast<size_t>(gridDim.x))
    {
            // reset shared memory allocator
        wp::tile_shared_storage_t::init();

        //---------
        // primal vars
        wp::int32 var_0;
        bool var_1;
        wp::float32* var_2;
        wp::float32 var_3;
        wp::float32 var_4;
        Body_676aa1ba* var_5;
        wp::float32* var_6;
        wp::float32 var_7;
        wp::float32 var_8;
        //---------
        // dual vars
        wp::int32 adj_0 = {};
        bool adj_1 = {};
        wp::float32 adj_2 = {};
        wp::float32 adj_3 = {};
        wp::float32 adj_4 = {};
        Body_676aa1ba adj_5 = {};
        wp::float32 adj_6 = {};
        wp::float32 adj_7 = {};
        wp::float32 adj_8 = {};
        //---------
        // forward
        // def advance(gain: float, xs: wp.array(dtype=float), bodies: wp.array(dtype=Body), n: int):       <L 18>
        // i = wp.tid()                                                                           <L 19>
        var_0 = builtin_tid1d();
        // if i < n:                                                                              <L 20>
        var_1 = (var_0 < var_n);
        if (var_1) {
            // xs[i] = pull(xs[i], gain) + bodies[i].mass                                         <L 21>
            var_2 = wp::address(var_xs, var_0);
            var_4 = wp::load(var_2);
            var_3 = pull_0(var_4, var_gain);
            var_5 = wp::address(var_bodies, var_0);
            var_6 = &(((*wp::address(var_bodies, var_0))).mass);
            var_8 = wp::load(var_6);
            var_7 = wp::add(var_3, var_8);
            // wp::array_store(var_xs, var_0, var_7);
        }
        //---------
        // reverse
        if (var_1) {
            wp::adj_array_store(var_xs, var_0, var_7, adj_xs, adj_0, adj_7);
            wp::adj_add(var_3, var_8, adj_3, adj_6, adj_7);
            adj_5.mass += adj_6;
            wp::adj_address(var_bodies, var_0, adj_bodies, adj_0, adj_5);
            adj_pull_0(var_4, var_gain, adj_2, adj_gain, adj_3);
            wp::adj_address(var_xs, var_0, adj_xs, adj_0, adj_2);
            // adj: xs[i] = pull(xs[i], gain) + bodies[i].mass                                    <L 21>
        }
        // adj: if i < n:                                                                         <L 20>
        // adj: i = wp.tid()                                                                      <L 19>
        // adj: def advance(gain: float, xs: wp.array(dtype=float), bodies: wp.array(dtype=Body), n: int):  <L 18>
        continue;
    }
}

