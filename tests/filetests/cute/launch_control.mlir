// RUN: --emit=ptx --gpu-name=sm_100
// A thread asks for a CTA that has not started; all warps read the answer, which says where its tile is.
// CHECK: .entry clc_gemm
// CHECK: clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128
// CHECK: clusterlaunchcontrol.query_cancel.is_canceled.pred.b128
// CHECK: clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128
// CHECK: fence.proxy.async
// CHECK: tcgen05.mma.cta_group::1.kind::f16
cute.func @clc_gemm(%mapA: !cute_nvgpu.tma_atom<f16, (64,128), 128>, %mapB: !cute_nvgpu.tma_atom<f16, (64,128), 128>, %mapD: !cute_nvgpu.tma_atom<f16, (64,32), 128>, %tiles_m: i32, %tiles_n: i32, %steps: i32) threads 224 {
  %tid = cute.thread_idx<0>()
  %warp = cute_nvgpu.warp_idx()
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %two = cute.static() -> !cute.int<2>
  %size = cute.static() -> !cute.int<128>
  %depth = cute.static() -> !cute.int<64>
  %count = cute.to_int(%steps)
  %sA = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,64,4):(64,1,8192)>
  %sB = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,64,4):(64,1,8192)>
  %sD = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (128,(32,2),2):(64,(1,32),8192)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 8:1>
  %sums = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 4:1>
  %asked = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 4:1>
  %answers = cute.alloc() -> !cute.tensor<i32, smem, align<16>, (4,2):(1,4)>
  %slot = cute.alloc() -> !cute.tensor<i32, smem, align<4>, 1:1>
  // TMA fills stages that tensor cores read; they fill accumulators that four warps read.
  %loads = cutlass.make_pipeline(%bars) -> !cutlass.pipeline<tma_umma, 4, 32768, (1,1)>
  %accumulators = cutlass.make_pipeline(%sums) -> !cutlass.pipeline<umma_async, 2, 0, (1,4)>
  // Work: warps 0 to 3, the two threads that bring and multiply, and the one that asks read it.
  %works = cutlass.make_pipeline(%asked) -> !cutlass.pipeline<clc, 2, 16, (1,7)>
  %boxesD = cutlass.make_pipeline() -> !cutlass.pipeline<tma_store, 1, 0, (1,1)>
  %problem = cute.make_shape(%tiles_m, %tiles_n) -> !cute.shape<(?,?,1)>
  %scheduler = cutlass.make_tile_scheduler(%problem) -> !cutlass.tile_scheduler<1, m>
  %begin = cutlass.initial_work(%scheduler)
  %is = cutlass.is_valid_work(%scheduler, %begin)
  %brings = cute.static() -> !cute.int<4>
  %multiplies = cute.static() -> !cute.int<5>
  %schedules = cute.static() -> !cute.int<6>
  %asks = cute.equal(%warp, %schedules)
  %produces = cute.equal(%warp, %brings)
  %computes = cute.equal(%warp, %multiplies)
  %stores = cute.elem_less(%warp, %brings)
  // Two accumulators of 128 columns.
  cute.if %computes {
    cute_nvgpu.tmem_alloc<256>(%slot)
  }
  cute_nvgpu.tcgen05_fence_before()
  cutlass.pipeline_init_wait()
  cute_nvgpu.tcgen05_fence_after()
  %tmem = cute_nvgpu.tmem_address(%slot)
  cute.if %asks {
    %elected = cute_nvgpu.elect_sync()
    cute.if %elected {
      %ahead = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, producer>
      %read = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
      %over, %last, %done = cute.while carries (%more = %is, %asking = %ahead, %reading = %read) {
        cutlass.request_next_work(%works, %asking, %answers)
        cutlass.consumer_wait(%works, %reading)
        %next = cutlass.get_next_work(%scheduler, %works, %reading, %answers)
        cutlass.consumer_release(%works, %reading)
        %valid = cutlass.is_valid_work(%scheduler, %next)
        %a = cutlass.advance(%asking)
        %b = cutlass.advance(%reading)
        cute.yield(%valid, %a, %b)
      }
      cutlass.producer_tail(%works, %last)
    }
  }
  cute.if %produces {
    %elected = cute_nvgpu.elect_sync()
    cute.if %elected {
      %tmaA = cute_nvgpu.make_exec_tma(%mapA)
      %tmaB = cute_nvgpu.make_exec_tma(%mapB)
      %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<4, producer>
      %read = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
      %over, %none, %last, %done = cute.while carries (%more = %is, %work = %begin, %before = %start, %reading = %read) {
        %tile = cutlass.get_current_work(%scheduler, %work)
        %tm = cute.get_leaf<0>(%tile)
        %tn = cute.get_leaf<1>(%tile)
        %m = cute.tuple_mul(%tm, %size)
        %n = cute.tuple_mul(%tn, %size)
        %after = cute.for %k = %zero to %count step %one carries (%state = %before) {
          cutlass.producer_acquire(%loads, %state)
          %stage = cutlass.state_index(%state)
          %full = cutlass.producer_get_barrier(%loads, %state)
          %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
          %sAs = cute.slice(%cs, %sA)
          %sBs = cute.slice(%cs, %sB)
          %kk = cute.tuple_mul(%k, %depth)
          %cA = cute.make_coord(%kk, %m) -> !cute.coord<(?,?)>
          %cB = cute.make_coord(%kk, %n) -> !cute.coord<(?,?)>
          cute_nvgpu.tma_load(%tmaA, %sAs, %full, %cA)
          cute_nvgpu.tma_load(%tmaB, %sBs, %full, %cB)
          cutlass.producer_commit(%loads, %state)
          %next = cutlass.advance(%state)
          cute.yield(%next)
        }
        cutlass.consumer_wait(%works, %reading)
        %next_work = cutlass.get_next_work(%scheduler, %works, %reading, %answers)
        cutlass.consumer_release(%works, %reading)
        %valid = cutlass.is_valid_work(%scheduler, %next_work)
        %read_on = cutlass.advance(%reading)
        cute.yield(%valid, %next_work, %after, %read_on)
      }
      cutlass.producer_tail(%loads, %last)
    }
  }
  cute.if %computes {
    %atom = cute_nvgpu.make_tcgen05_mma_atom() -> !cute.mma_atom<tcgen05, (128,128,16), f16, f16, f32>
    %once = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
    %mma = cute.make_tiled_mma(%atom, %once)
    %elected = cute_nvgpu.elect_sync()
    cute.if %elected {
      %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<4, consumer>
      %first = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, producer>
      %read = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
      %over, %none, %last, %done, %all = cute.while carries (%more = %is, %work = %begin, %before = %start, %total = %first, %reading = %read) {
        cutlass.producer_acquire(%accumulators, %total)
        %half = cutlass.state_index(%total)
        %column = cute.tuple_mul(%half, %size)
        %sum = cute.tuple_add(%tmem, %column)
        %after = cute.for %k = %zero to %count step %one carries (%state = %before) {
          %stage = cutlass.state_index(%state)
          %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
          %sAs = cute.slice(%cs, %sA)
          %sBs = cute.slice(%cs, %sB)
          cutlass.consumer_wait(%loads, %state)
          // The first product of a tile adds to nothing. A stage is free when it is read.
          %adds = cute_nvgpu.atom_set_value<0>(%mma, %k)
          cute_nvgpu.tcgen05_mma(%adds, %sum, %sAs, %sBs)
          cutlass.consumer_release(%loads, %state)
          %next = cutlass.advance(%state)
          cute.yield(%next)
        }
        cutlass.producer_commit(%accumulators, %total)
        %following = cutlass.advance(%total)
        cutlass.consumer_wait(%works, %reading)
        %next_work = cutlass.get_next_work(%scheduler, %works, %reading, %answers)
        cutlass.consumer_release(%works, %reading)
        %valid = cutlass.is_valid_work(%scheduler, %next_work)
        %read_on = cutlass.advance(%reading)
        cute.yield(%valid, %next_work, %after, %following, %read_on)
      }
    }
  }
  cute.if %stores {
    %tmaD = cute_nvgpu.make_exec_tma(%mapD)
    %words = cute.alloc() -> !cute.tensor<f32, rmem, align<16>, 32:1>
    %halves = cute.alloc() -> !cute.tensor<f16, rmem, align<16>, 32:1>
    %vectors = cute.static() -> !cute.copy_atom<universal, 128>
    %span = cute.static() -> !cute.int<32>
    %box = cute.static() -> !cute.tile<[32:1;64:1]>
    %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
    %boxes0 = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<1, producer>
    %read = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
    %over, %none, %done, %all = cute.while carries (%more = %is, %work = %begin, %total = %start, %reading = %read) {
      %tile = cutlass.get_current_work(%scheduler, %work)
      %tm = cute.get_leaf<0>(%tile)
      %tn = cute.get_leaf<1>(%tile)
      %m = cute.tuple_mul(%tm, %size)
      %n = cute.tuple_mul(%tn, %size)
      %half = cutlass.state_index(%total)
      %column = cute.tuple_mul(%half, %size)
      %sum = cute.tuple_add(%tmem, %column)
      // The boxes of the tile before are on their way.
      %leads = cute_nvgpu.elect_sync()
      cute.if %leads {
        cutlass.producer_acquire(%boxesD, %boxes0)
      }
      cute_nvgpu.sync_warp()
      cutlass.consumer_wait(%accumulators, %total)
      // A thread has a row, 32 columns at a time.
      cute.for %b = %zero to %two step %one {
        cute.for %c = %zero to %two step %one {
          %boxes = cute.tuple_mul(%b, %depth)
          %parts = cute.tuple_mul(%c, %span)
          %beside = cute.tuple_add(%boxes, %parts)
          %from = cute.tuple_add(%sum, %beside)
          cute_nvgpu.tcgen05_load(%from, %words)
          cute.cast(%words, %halves)
          %ct = cute.make_coord(%tid, %c, %b) -> !cute.coord<(?,(_,?),?)>
          %row = cute.slice(%ct, %sD)
          cute.copy(%vectors, %halves, %row)
        }
      }
      cute_nvgpu.tcgen05_fence_before()
      cute_nvgpu.fence_proxy_async()
      cute_nvgpu.sync_warp()
      cute.if %leads {
        cutlass.consumer_release(%accumulators, %total)
        %line = cute.tuple_mul(%warp, %span)
        %y = cute.tuple_add(%m, %line)
        cute.for %b = %zero to %two step %one {
          %cb = cute.make_coord(%b) -> !cute.coord<(_,_,?)>
          %sDb = cute.slice(%cb, %sD)
          %cw = cute.make_coord(%warp) -> !cute.coord<(?,0)>
          %mine = cute.local_tile(%sDb, %box, %cw)
          %boxes = cute.tuple_mul(%b, %depth)
          %x = cute.tuple_add(%n, %boxes)
          %cD = cute.make_coord(%x, %y) -> !cute.coord<(?,?)>
          cute_nvgpu.tma_store(%tmaD, %mine, %cD)
        }
        cutlass.producer_commit(%boxesD, %boxes0)
      }
      %following = cutlass.advance(%total)
      cutlass.consumer_wait(%works, %reading)
      %next_work = cutlass.get_next_work(%scheduler, %works, %reading, %answers)
      cute_nvgpu.sync_warp()
      cute.if %leads {
        cutlass.consumer_release(%works, %reading)
      }
      %valid = cutlass.is_valid_work(%scheduler, %next_work)
      %read_on = cutlass.advance(%reading)
      cute.yield(%valid, %next_work, %following, %read_on)
    }
    %leads = cute_nvgpu.elect_sync()
    cute.if %leads {
      cutlass.producer_tail(%boxesD, %boxes0)
    }
  }
  cute_nvgpu.tcgen05_fence_before()
  cute.sync_threads()
  cute_nvgpu.tcgen05_fence_after()
  cute.if %computes {
    cute_nvgpu.tmem_dealloc<256>(%tmem)
  }
  cute.return
}
